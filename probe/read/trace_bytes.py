"""The text of a trace file in pieces, unpacked if it is packed; never more than a piece in memory.

A file that inflates far beyond what any trace does is cut off: small gzip files that become
terabytes are made on purpose.
"""

import zlib
from collections.abc import Iterator
from typing import BinaryIO

PIECE_BYTES = 1 << 18
"""Small enough that a piece and what is decoded from it stay in the processor's cache."""
PACKED_BYTES = 1 << 16
GZIP_MAGIC = b"\x1f\x8b"
LARGEST_RATIO = 250
"""Traces shrink ten to forty times; gzip itself ends at 1032."""
FREE_BYTES = 32 << 20
"""Inflated size up to which the ratio is not asked about."""
_GZIP_WINDOW = 16 + zlib.MAX_WBITS


class TornStreamError(Exception):
    """The bytes end or go bad before their time; what came until then is good."""

    def __init__(self, what: str, hint: str) -> None:
        super().__init__(what)
        self.what = what
        self.hint = hint


def pieces(file: BinaryIO) -> Iterator[bytes]:
    """The file's text from its present position; raises TornStreamError where it goes bad."""
    packed = file.read(PACKED_BYTES)
    if packed.startswith(GZIP_MAGIC):
        yield from _inflated(file, packed)
        return
    while packed:
        yield packed
        packed = file.read(PIECE_BYTES)


def _inflated(file: BinaryIO, packed: bytes) -> Iterator[bytes]:
    """All members of a gzip file, one after the other."""
    member = zlib.decompressobj(_GZIP_WINDOW)
    taken = len(packed)
    given = 0
    while packed:
        try:
            piece = member.decompress(packed, PIECE_BYTES)
        except zlib.error as error:
            raise TornStreamError(
                f"is damaged after {given:,} bytes of text ({error})",
                "What comes before the damage is read; copy or record the trace again.",
            ) from error
        given += len(piece)
        if given > FREE_BYTES and given > taken * LARGEST_RATIO:
            raise TornStreamError(
                f"inflates beyond {LARGEST_RATIO} times its size, which no trace does",
                "Reading stopped there; unpack it with gunzip first if you trust it.",
            )
        if piece:
            yield piece
        packed = member.unconsumed_tail
        if member.eof:
            packed = member.unused_data.lstrip(b"\0")
            if packed:
                member = zlib.decompressobj(_GZIP_WINDOW)
        if not packed:
            packed = file.read(PACKED_BYTES)
            taken += len(packed)
            if packed and member.eof:
                member = zlib.decompressobj(_GZIP_WINDOW)
    if not member.eof:
        raise TornStreamError(
            f"ends within its gzip stream, after {given:,} bytes of text",
            "What is there is read; the file was cut or is still being written.",
        )
