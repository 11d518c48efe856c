"""Tables as the reader gives them, from hand-written rows."""

import msgspec
import pyarrow as pa

from probe.read.columns import arrow_schema
from probe.schema.rows import Row
from probe.schema.tables import TABLE_BY_ROW, Table


def table_of(table: Table, rows_by_rank: dict[int, list[Row]]) -> pa.Table:
    """The rows of all ranks as one Arrow table, sorted by rank and in the order given."""
    plain = [
        {"rank": rank, **msgspec.to_builtins(row)}
        for rank, rows in sorted(rows_by_rank.items())
        for row in rows
    ]
    assert all(TABLE_BY_ROW[type(row)] is table for rows in rows_by_rank.values() for row in rows)
    return pa.Table.from_pylist(plain, schema=arrow_schema(table))
