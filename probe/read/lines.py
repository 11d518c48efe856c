"""Complete lines of a file that may still be growing, or was cut anywhere.

Memory is bounded by the chunk, whatever the file holds: a line that spans chunks and is longer than
any that a rank writes is stepped over and reported. What follows the last newline is not a line
yet.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from probe.schema.layout import LONGEST_LINE_BYTES

CHUNK_BYTES = 1 << 19
"""What is decoded at once: it and its rows fit the cache, and memory that the process has already.

Eight times as much costs a fifth more time, all of it for pages that the system hands out anew.
"""


@dataclass(frozen=True, kw_only=True)
class Lines:
    """Some whole lines, each with its newline."""

    content: bytes
    first_line: int
    """Number of the first line, from 1."""
    next_line: int
    """Number of the line after the last."""
    end_offset: int
    """Where in the file they end."""


@dataclass(frozen=True, kw_only=True)
class OverlongLine:
    """A line that was stepped over."""

    line: int
    length_bytes: int
    end_offset: int

    @property
    def next_line(self) -> int:
        """Number of the line after it."""
        return self.line + 1


def complete_lines(
    file: BinaryIO, *, offset: int = 0, first_line: int = 1
) -> Iterator[Lines | OverlongLine]:
    """All that is complete from `offset` on, in chunks."""
    os.lseek(file.fileno(), offset, os.SEEK_SET)
    pending = b""
    overlong_bytes = 0
    line = first_line
    while chunk := file.read(CHUNK_BYTES):
        if overlong_bytes:
            newline = chunk.find(b"\n")
            if newline < 0:
                overlong_bytes += len(chunk)
                continue
            overlong_bytes += newline + 1
            offset += overlong_bytes
            yield OverlongLine(line=line, length_bytes=overlong_bytes, end_offset=offset)
            line += 1
            overlong_bytes = 0
            chunk = chunk[newline + 1 :]
        if pending:
            chunk = pending + chunk
        cut = chunk.rfind(b"\n") + 1
        content, pending = chunk[:cut], chunk[cut:]
        if content:
            offset += cut
            after = line + content.count(b"\n")
            yield Lines(content=content, first_line=line, next_line=after, end_offset=offset)
            line = after
        if len(pending) > LONGEST_LINE_BYTES:
            overlong_bytes = len(pending)
            pending = b""
