"""Any row is one line, and any line is the row it was."""

import gc
import json
import math
from enum import Enum

import msgspec
import pytest
from building import plain, same
from hypothesis import given
from hypothesis import strategies as st
from rows import any_rows, rows_of

from probe.schema.codec import decode_row, encode_row, encode_rows
from probe.schema.columns import Unit
from probe.schema.rows import CommRow, MemoryRow, Row, StepRow
from probe.schema.tables import TABLE_BY_NAME, TABLE_BY_ROW, TABLES, Table
from probe.schema.vocabulary import CollectiveOp, Phase

ENDINGS = {Unit.NANOSECONDS: "_ns", Unit.BYTES: "_bytes", Unit.ELEMENTS: "_elements"}


@given(st.one_of([rows_of(table) for table in TABLES]))
def test_a_row_is_one_line_and_comes_back(row: Row) -> None:
    line = encode_row(row)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    back = decode_row(line, type(row))
    assert same(plain(back), plain(row))
    assert type(back) is type(row)


@given(any_rows())
def test_a_line_is_plain_json_for_everyone(rows: list[Row]) -> None:
    """No NaN nor Infinity literals, which strict parsers refuse."""

    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    for row in rows:
        names = list(json.loads(encode_row(row), parse_constant=refuse))
        assert names == [field.name for field in TABLE_BY_ROW[type(row)].fields]


@pytest.mark.parametrize("table", TABLES, ids=TABLE_BY_NAME)
def test_every_column_states_its_unit_and_its_meaning(table: Table) -> None:
    for field in table.fields:
        assert field.column.meaning
        assert field.name.isidentifier()
        ending = ENDINGS.get(field.column.unit)
        assert ending is None or field.name.endswith(ending), field.name
        for unit, ending in ENDINGS.items():
            if field.name.endswith(ending):
                assert field.column.unit is unit, field.name
    assert table.meaning.endswith(".")


@pytest.mark.parametrize("table", TABLES, ids=TABLE_BY_NAME)
def test_a_row_of_an_older_minor_version_reads_with_its_required_columns(table: Table) -> None:
    required = {}
    for field in table.fields:
        facts = next(item for item in msgspec.structs.fields(table.row) if item.name == field.name)
        if facts.required:
            words = isinstance(field.type, type) and issubclass(field.type, Enum)
            required[field.name] = next(iter(field.type)).value if words else 0  # type: ignore[call-overload]
            if field.type is str:
                required[field.name] = "name"
    row = decode_row(json.dumps(required).encode(), table.row)
    assert plain(row).items() >= required.items()


def test_many_rows_are_encoded_as_each_alone() -> None:
    comm = [
        CommRow(
            step=step,
            phase=Phase.FORWARD,
            op=CollectiveOp.ALL_GATHER,
            wire_op=CollectiveOp.BROADCAST,
        )
        for step in range(3)
    ]
    steps = [
        StepRow(step=0, begin_ns=0, wall_ns=1, loss=loss) for loss in (1.5, math.nan, math.inf)
    ]
    for rows in (comm, steps):
        assert encode_rows(rows) == b"".join(map(encode_row, rows))


def test_writing_rows_leaves_nothing_in_memory() -> None:
    """A training writes millions of them; what one leaves behind grows for weeks."""

    def iterators() -> int:
        return sum(type(item).__name__ == "tuple_iterator" for item in gc.get_objects())

    gc.collect()
    before = iterators()
    for _ in range(50):
        encode_rows((MemoryRow(step=1), MemoryRow(step=2)))
    gc.collect()
    assert iterators() - before < 10
