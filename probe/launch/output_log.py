"""What the ranks printed, kept with the run: all of it, or its beginning and its end.

One file with one writer. A script that prints without end must not fill the disk: past the first
part only the latest is kept, in memory until the run is over.
"""

import logging
import threading
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

logger = logging.getLogger("zeroprobe")

HEAD_BYTES = 4 << 20
TAIL_BYTES = 1 << 20


class OutputLog:
    """`output.log` of one run; whatever happens to it, the run goes on."""

    def __init__(
        self, path: Path, *, head_bytes: int = HEAD_BYTES, tail_bytes: int = TAIL_BYTES
    ) -> None:
        self._room_bytes = head_bytes
        self._tail_bytes = tail_bytes
        self._tail: deque[bytes] = deque()
        self._held_bytes = 0
        self._left_out_bytes = 0
        self._lock = threading.Lock()
        self._file: BinaryIO | None = None
        try:
            self._file = path.open("wb", buffering=0)
        except OSError as error:
            self._give_up(error)

    def add(self, chunk: bytes) -> None:
        """Keep what was printed; called by the threads that pass it on."""
        with self._lock:
            head, rest = chunk[: self._room_bytes], chunk[self._room_bytes :]
            if head:
                self._room_bytes -= len(head)
                self._write(head)
            if rest:
                self._tail.append(rest)
                self._held_bytes += len(rest)
                while self._held_bytes - len(self._tail[0]) >= self._tail_bytes:
                    dropped = self._tail.popleft()
                    self._held_bytes -= len(dropped)
                    self._left_out_bytes += len(dropped)

    def close(self) -> None:
        """Put the end behind the beginning, and between them how much is missing."""
        with self._lock:
            if self._left_out_bytes:
                self._write(f"\n[{self._left_out_bytes} bytes left out]\n".encode())
            if self._tail:
                self._write(b"".join(self._tail))
                self._tail.clear()
            if self._file is not None:
                self._file.close()
                self._file = None

    def _write(self, content: bytes) -> None:
        if self._file is None:
            return
        try:
            self._file.write(content)
        except OSError as error:
            self._file.close()
            self._file = None
            self._give_up(error)

    def _give_up(self, error: OSError) -> None:
        # A log of the user's own may be closed or full as well.
        with suppress(Exception):
            logger.warning("what the ranks print is not kept (%s)", error)
