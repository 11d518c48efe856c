"""What a Parquet file says of its row groups and columns, read without Arrow.

Arrow's own accessors of column metadata end the process when a footer is damaged in certain ways,
and a run comes from strangers. So the few facts that decide whether a table is decoded at all are
taken from the footer here; a footer that is no footer raises ValueError.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import BinaryIO

_MAGIC = b"PAR1"
_LARGEST_FOOTER_BYTES = 256 << 20
_DEEPEST = 16

# The types of Thrift's compact protocol, in which footers are written.
_TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(1, 13)


@dataclass(kw_only=True)
class ColumnChunk:
    """One column of one row group."""

    name: str = ""
    """The outermost name: that of the list for the elements of a list."""
    encodings: list[int] = field(default_factory=list)
    values: int = 0
    decoded_bytes: int = 0
    """Size of its pages without compression."""
    lowest: bytes | None = None
    highest: bytes | None = None


@dataclass(kw_only=True)
class RowGroup:
    """Some rows of a file."""

    rows: int = 0
    columns: list[ColumnChunk] = field(default_factory=list)


def read_footer(file: BinaryIO) -> list[RowGroup]:
    """The row groups of a Parquet file; ValueError if it has no readable footer."""
    end = file.seek(-8, os.SEEK_END)
    trailer = file.read(8)
    size_bytes = int.from_bytes(trailer[:4], "little")
    if trailer[4:] != _MAGIC or size_bytes > min(end, _LARGEST_FOOTER_BYTES):
        raise ValueError("it does not end as a Parquet file does")
    file.seek(end - size_bytes)
    content = _Compact(file.read(size_bytes))
    try:
        return _row_groups(content)
    except IndexError:
        raise ValueError("its footer is cut short") from None


class _Compact:
    """A place in bytes of Thrift's compact protocol."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._at = 0

    def fields(self) -> Iterator[tuple[int, int]]:
        """Number and type of each field of a struct; each must be read or skipped."""
        number = 0
        while head := self._byte():
            number = number + (head >> 4) if head >> 4 else self.integer()
            yield number, head & 15

    def elements(self) -> tuple[int, int]:
        """Type and count of the elements of a list."""
        head = self._byte()
        return head & 15, head >> 4 if head >> 4 < 15 else self._varint()

    def integer(self) -> int:
        """A signed number."""
        coded = self._varint()
        return (coded >> 1) ^ -(coded & 1)

    def binary(self, size_bytes: int | None = None) -> bytes:
        """A string of bytes, with its length in front unless that is known."""
        if size_bytes is None:
            size_bytes = self._varint()
        start = self._at
        self._at += size_bytes
        if self._at > len(self._content):
            raise IndexError
        return self._content[start : self._at]

    def skip(self, kind: int, depth: int = 0) -> None:
        """Step over a value."""
        if depth > _DEEPEST:
            raise ValueError("its footer is nested too deeply")
        if kind in (_I16, _I32, _I64):
            self._varint()
        elif kind == _BINARY:
            self.binary()
        elif kind == _STRUCT:
            for _, inner in self.fields():
                self.skip(inner, depth + 1)
        elif kind in (_LIST, _SET):
            inner, count = self.elements()
            for _ in range(count):
                self._skip_element(inner, depth + 1)
        elif kind == _MAP:
            count = self._varint()
            kinds = self._byte() if count else 0
            for _ in range(count):
                self._skip_element(kinds >> 4, depth + 1)
                self._skip_element(kinds & 15, depth + 1)
        elif kind == _BYTE:
            self._byte()
        elif kind == _DOUBLE:
            self.binary(8)
        elif kind not in (_TRUE, _FALSE):
            raise ValueError("its footer holds a value of no known type")

    def _skip_element(self, kind: int, depth: int) -> None:
        # Truth is part of a field's head, but a byte of its own in a list.
        self.skip(_BYTE if kind in (_TRUE, _FALSE) else kind, depth)

    def _byte(self) -> int:
        value = self._content[self._at]
        self._at += 1
        return value

    def _varint(self) -> int:
        value = shift = 0
        while (byte := self._byte()) >= 0x80:
            value |= (byte & 0x7F) << shift
            shift += 7
            if shift > 63:
                raise ValueError("its footer holds a number of more than 64 bits")
        return value | byte << shift


def _row_groups(content: _Compact) -> list[RowGroup]:
    groups: list[RowGroup] = []
    for number, kind in content.fields():
        if (number, kind) == (4, _LIST):
            groups = [_row_group(content) for _ in _structs(content)]
        else:
            content.skip(kind)
    return groups


def _row_group(content: _Compact) -> RowGroup:
    group = RowGroup()
    for number, kind in content.fields():
        if (number, kind) == (1, _LIST):
            group.columns = [_column_chunk(content) for _ in _structs(content)]
        elif (number, kind) == (3, _I64):
            group.rows = content.integer()
        else:
            content.skip(kind)
    return group


def _column_chunk(content: _Compact) -> ColumnChunk:
    column = ColumnChunk()
    for number, kind in content.fields():
        if (number, kind) == (3, _STRUCT):
            column = _column_facts(content)
        else:
            content.skip(kind)
    return column


def _column_facts(content: _Compact) -> ColumnChunk:
    column = ColumnChunk()
    for number, kind in content.fields():
        if (number, kind) == (2, _LIST):
            inner, count = content.elements()
            if inner != _I32:
                raise ValueError("its footer names encodings that are no numbers")
            column.encodings = [content.integer() for _ in range(count)]
        elif (number, kind) == (3, _LIST):
            inner, count = content.elements()
            if inner != _BINARY:
                raise ValueError("its footer names columns that are no names")
            names = [content.binary() for _ in range(count)]
            column.name = names[0].decode() if names else ""
        elif (number, kind) == (5, _I64):
            column.values = content.integer()
        elif (number, kind) == (6, _I64):
            column.decoded_bytes = content.integer()
        elif (number, kind) == (12, _STRUCT):
            _add_bounds(content, column)
        else:
            content.skip(kind)
    return column


def _add_bounds(content: _Compact, column: ColumnChunk) -> None:
    for number, kind in content.fields():
        if (number, kind) == (5, _BINARY):
            column.highest = content.binary()
        elif (number, kind) == (6, _BINARY):
            column.lowest = content.binary()
        else:
            content.skip(kind)


def _structs(content: _Compact) -> Iterator[int]:
    """As many turns as a list has structs."""
    inner, count = content.elements()
    if inner != _STRUCT:
        raise ValueError("its footer holds something else where a list of structs belongs")
    yield from range(count)
