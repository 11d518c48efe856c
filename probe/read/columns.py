"""From lines to Arrow columns: what a table looks like in memory, sealed or not.

The reader's row types derive from the schema, with words as plain text: a word that a newer minor
version added must not cost the row. A line that is no row costs itself and becomes a problem.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cache
from operator import attrgetter
from typing import Any

import msgspec
import pyarrow as pa

from probe.read.problem import Problem
from probe.read.words import WORDS
from probe.schema.codec import DECODING_ERRORS
from probe.schema.columns import Int
from probe.schema.tables import Field, Table
from probe.schema.vocabulary import Severity

RANK = "rank"
MOST_PROBLEMS_PER_FILE = 20

_ARROW: dict[object, pa.DataType] = {
    int: pa.int64(),
    float: pa.float64(),
    bool: pa.bool_(),
    str: WORDS,
    list[int]: pa.list_(pa.int64()),
}


@cache
def arrow_schema(table: Table) -> pa.Schema:
    """The columns of a table for all ranks: the rank in front, then the row as stated."""
    fields = [pa.field(RANK, pa.int32(), nullable=False)]
    fields += [pa.field(column.name, arrow_type(column)) for column in table.fields]
    return pa.schema(fields)


def arrow_type(column: Field) -> pa.DataType:
    """The Arrow type of a column in memory."""
    if isinstance(column.type, type) and issubclass(column.type, Enum):
        return WORDS
    return _ARROW[column.type]


@cache
def _defaults(table: Table) -> dict[str, Any]:
    """The value of each column in rows that were written before it existed; words are text."""
    defaults: dict[str, Any] = {}
    for item in msgspec.structs.fields(table.row):
        if item.default_factory is not msgspec.NODEFAULT:
            defaults[item.name] = item.default_factory()
        elif item.default is not msgspec.NODEFAULT:
            value = item.default
            defaults[item.name] = value.value if isinstance(value, Enum) else value
    return defaults


def default_of(table: Table, column: str) -> Any:
    """The value of a column in rows that were written before it existed."""
    return _defaults(table).get(column)


@cache
def _decoder(table: Table) -> msgspec.json.Decoder[Any]:
    """Decodes one line, with words as text and everything else as the schema states it."""
    defaults = _defaults(table)
    fields: list[Any] = [
        (column.name, _reading_type(column), defaults[column.name])
        if column.name in defaults
        else (column.name, _reading_type(column))
        for column in table.fields
    ]
    row = msgspec.defstruct(f"{table.row.__name__}AsText", fields, kw_only=True, gc=False)
    return msgspec.json.Decoder(row, strict=False)


def _reading_type(column: Field) -> Any:
    if isinstance(column.type, type) and issubclass(column.type, Enum):
        kind: Any = str
    else:
        kind = {int: Int, list[int]: list[Int]}.get(column.type, column.type)  # type: ignore[call-overload]
    return kind | None if column.optional else kind


@dataclass(kw_only=True)
class RowReader:
    """Collects the rows of one file as Arrow batches, and what was wrong with it."""

    table: Table
    rank: int
    file: str
    columns: Sequence[str]
    """Columns wanted, in the order wanted; may include the rank."""
    problems: list[Problem] = field(default_factory=list)
    bad_lines: int = 0

    def read(self, content: bytes, first_line: int) -> pa.RecordBatch:
        """Decode whole lines; those that are no rows are reported and left out."""
        decoder = _decoder(self.table)
        try:
            rows = decoder.decode_lines(content)
        except DECODING_ERRORS:
            rows = self._read_one_by_one(content, first_line)
        return self._batch(rows)

    def report(self, *, line: int, what: str, hint: str) -> None:
        """Note a bad line; after the first few only their number is kept."""
        self.bad_lines += 1
        if self.bad_lines <= MOST_PROBLEMS_PER_FILE:
            self.problems.append(
                Problem(severity=Severity.ERROR, file=self.file, line=line, what=what, hint=hint)
            )

    def all_problems(self) -> list[Problem]:
        """The problems of the file, the last one saying how many more there are."""
        more = self.bad_lines - MOST_PROBLEMS_PER_FILE
        if more <= 0:
            return list(self.problems)
        rest = Problem(
            severity=Severity.ERROR,
            file=self.file,
            what=f"{more} more lines of this file are no rows",
            hint="The file was damaged; restore it from a copy if there is one.",
        )
        return [*self.problems, rest]

    def _read_one_by_one(self, content: bytes, first_line: int) -> list[Any]:
        decoder = _decoder(self.table)
        rows = []
        for number, line in enumerate(content.split(b"\n")[:-1], first_line):
            if not line.strip():
                continue
            try:
                rows.append(decoder.decode(line))
            except DECODING_ERRORS as error:
                self.report(
                    line=number,
                    what=f"is no {self.table.name} row ({error})",
                    hint="The line is left out; all others are read.",
                )
        return rows

    def _batch(self, rows: list[Any]) -> pa.RecordBatch:
        schema = arrow_schema(self.table)
        # Column by column: tuples of rows would wake the garbage collector for nothing.
        arrays = {
            name: pa.array(list(map(attrgetter(name), rows)), schema.field(name).type)
            for name in self.columns
            if name != RANK
        }
        arrays[RANK] = pa.repeat(pa.scalar(self.rank, pa.int32()), len(rows))
        return pa.record_batch(
            [arrays[name] for name in self.columns],
            schema=pa.schema([schema.field(name) for name in self.columns]),
        )
