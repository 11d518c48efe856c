"""A file that only grows by whole lines.

One line is one `write` to a descriptor opened for appending, so `kill -9` at any instant loses at
most the line being written, and a copy of the directory at any instant is a valid run.
"""

import os
from pathlib import Path


class LineFile:
    """One table of one rank, with this process as its only writer."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
        if self._ends_torn():
            # A writer before us was killed within a line: end that line, so that it alone is lost.
            self.append(b"\n")

    def append(self, line: bytes) -> None:
        """Add one whole line, or leave the file as it was and raise OSError."""
        written = 0
        try:
            written = os.write(self._fd, line)
            while written < len(line):
                # Short only when the disk is nearly full; the next write says so.
                written += os.write(self._fd, line[written:])
        except OSError:
            if written:
                os.ftruncate(self._fd, os.fstat(self._fd).st_size - written)
            raise

    def is_removed(self) -> bool:
        """Whether the file has no name any more: what is written now goes nowhere."""
        return os.fstat(self._fd).st_nlink == 0

    def close(self) -> None:
        """Give the descriptor back."""
        os.close(self._fd)

    def _ends_torn(self) -> bool:
        size_bytes = os.fstat(self._fd).st_size
        return size_bytes > 0 and os.pread(self._fd, 1, size_bytes - 1) != b"\n"
