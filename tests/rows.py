"""Any row of any table, derived from the schema: nothing here names a column."""

from enum import Enum
from typing import Any

import msgspec
from hypothesis import strategies as st

from probe.schema.rows import Row
from probe.schema.tables import TABLES, Field, Table

EDGES = (0, 1, -1, 2**53 + 1, -(2**53) - 1, 2**63 - 1, -(2**63))
INTEGERS = st.sampled_from(EDGES) | st.integers(-(2**63), 2**63 - 1)
TEXTS = st.sampled_from(
    ["", "nan", "null", "inf", "\0\x1b[31m\u202e", "../../etc", "<b>", "\u2028\n"]
) | st.text(max_size=20)
FLOATS = st.sampled_from([0.0, -0.0, 5e-324, 1.7976931348623157e308]) | st.floats()

VALUES: dict[object, st.SearchStrategy[Any]] = {
    int: INTEGERS,
    float: FLOATS,
    bool: st.booleans(),
    str: TEXTS,
    list[int]: st.lists(INTEGERS, max_size=5),
}


def values_of(field: Field) -> st.SearchStrategy[Any]:
    if isinstance(field.type, type) and issubclass(field.type, Enum):
        values: st.SearchStrategy[Any] = st.sampled_from(field.type)
    else:
        values = VALUES[field.type]
    return st.none() | values if field.optional else values


def rows_of(table: Table) -> st.SearchStrategy[Row]:
    """Any row of a table; columns that have a default are left to it at times.

    All are of the first attempt: which of several counts is a matter of its own.
    """
    required = {field.name for field in msgspec.structs.fields(table.row) if field.required}
    return st.fixed_dictionaries(
        {field.name: values_of(field) for field in table.fields if field.name in required},
        optional={
            field.name: values_of(field)
            for field in table.fields
            if field.name not in required and field.name != "attempt"
        },
    ).map(lambda values: table.row(**values))


def any_rows(largest: int = 8) -> st.SearchStrategy[list[Row]]:
    """Rows of all tables, in any order."""
    return st.lists(st.one_of([rows_of(table) for table in TABLES]), max_size=largest)
