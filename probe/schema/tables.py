"""The tables of a run: one row class each, and what everyone derives from it.

`TABLES` is the list; `Table.fields` is the field table that README, reader and tests are held to.
"""

import types
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Union, get_args, get_origin, get_type_hints

from probe.schema.columns import Column
from probe.schema.rows import (
    CommCallRow,
    CommRow,
    EventRow,
    MemoryRow,
    MetricRow,
    NumericsRow,
    OffloadRow,
    OverflowRow,
    Row,
    StepRow,
)


@dataclass(frozen=True, kw_only=True)
class Field:
    """One column, as the row class states it."""

    name: str
    type: object
    """The plain type without its column facts: int, float, bool, str, an enum or list[int]."""
    optional: bool
    column: Column


@dataclass(frozen=True)
class Table:
    """One table: its name is its file name, its row class is its schema."""

    name: str
    row: type[Row]

    @property
    def file_name(self) -> str:
        """Name of the file that a rank writes."""
        return f"{self.name}.jsonl"

    @property
    def sealed_name(self) -> str:
        """Name of the file that sealing writes for all ranks."""
        return f"{self.name}.parquet"

    @property
    def meaning(self) -> str:
        """What one row says."""
        return (self.row.__doc__ or "").split("\n")[0]

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        """The columns in the order in which they are stated."""
        hints = get_type_hints(self.row, include_extras=True)
        return tuple(_field(name, hints[name]) for name in self.row.__struct_fields__)


def _field(name: str, hint: object) -> Field:
    """Take the stated hint of a field apart into type, optionality and column facts."""
    assert get_origin(hint) is Annotated, f"{name} states no column"
    inner, *facts = get_args(hint)
    (column,) = [fact for fact in facts if isinstance(fact, Column)]
    kinds = get_args(inner) if get_origin(inner) in (Union, types.UnionType) else (inner,)
    plain = [kind for kind in kinds if kind is not types.NoneType]
    assert len(plain) == 1, f"{name} is a union of several types"
    return Field(name=name, type=_bare(plain[0]), optional=len(kinds) > 1, column=column)


def _bare(hint: object) -> object:
    """Drop the bounds of a type, inside lists as well."""
    if get_origin(hint) is Annotated:
        return _bare(get_args(hint)[0])
    if get_origin(hint) is list:
        return list[_bare(get_args(hint)[0])]  # type: ignore[misc]
    return hint


STEPS = Table("steps", StepRow)
COMM = Table("comm", CommRow)
COMM_CALLS = Table("comm_calls", CommCallRow)
MEMORY = Table("memory", MemoryRow)
OVERFLOW = Table("overflow", OverflowRow)
NUMERICS = Table("numerics", NumericsRow)
OFFLOAD = Table("offload", OffloadRow)
EVENTS = Table("events", EventRow)
METRICS = Table("metrics", MetricRow)

TABLES = (STEPS, COMM, COMM_CALLS, MEMORY, OVERFLOW, NUMERICS, OFFLOAD, EVENTS, METRICS)
TABLE_BY_NAME = {table.name: table for table in TABLES}
TABLE_BY_ROW = {table.row: table for table in TABLES}
