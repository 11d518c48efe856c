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
        self._size_bytes = os.fstat(self._fd).st_size
        if self._ends_torn():
            # A writer before us was killed within a line: end that line, so that it alone is lost.
            self.append(b"\n")

    def append(self, line: bytes) -> None:
        """Add one whole line, or leave the file as it was and raise OSError."""
        try:
            written = os.write(self._fd, line)
            while written < len(line):
                # Short only when the disk is nearly full; the next write says so.
                written += os.write(self._fd, line[written:])
        except OSError:
            os.ftruncate(self._fd, self._size_bytes)
            raise
        self._size_bytes += written

    def close(self) -> None:
        """Give the descriptor back."""
        os.close(self._fd)

    def _ends_torn(self) -> bool:
        return self._size_bytes > 0 and os.pread(self._fd, 1, self._size_bytes - 1) != b"\n"
