"""Any rows come back as they were written, from JSONL and from Parquet, bit for bit."""

import tempfile
from pathlib import Path

import pandas as pd
from building import assert_same, by_table, everything, make_run, plain, rows_in
from hypothesis import given, settings
from hypothesis import strategies as st
from rows import any_rows

from probe.read.loading import Loaded
from probe.read.run import load_run
from probe.read.tail import Tail
from probe.schema.rows import Row
from probe.schema.tables import TABLE_BY_ROW, TABLES
from probe.seal import seal_run


def in_order(rows: dict[int, list[Row]]) -> dict[str, list[dict[str, object]]]:
    """What a load gives: by rank and step, and in the order written where the step is equal."""
    tables: dict[str, list[dict[str, object]]] = {table.name: [] for table in TABLES}
    for rank, of_rank in sorted(rows.items()):
        for row in of_rank:
            tables[TABLE_BY_ROW[type(row)].name].append({"rank": rank, **plain(row)})
    for table in TABLES:
        if not next(field for field in table.fields if field.name == "step").optional:
            tables[table.name].sort(key=lambda row: (row["rank"], row["step"]))
    return tables


def assert_equal(sealed: dict[str, Loaded], unsealed: dict[str, Loaded]) -> None:
    for name, loaded in sealed.items():
        assert loaded.table.schema == unsealed[name].table.schema
        assert_same(rows_in(loaded), rows_in(unsealed[name]))
        assert loaded.problems == unsealed[name].problems
        pd.testing.assert_frame_equal(loaded.frame(), unsealed[name].frame())


@settings(max_examples=60)
@given(rows=st.lists(any_rows(), min_size=1, max_size=3))
def test_any_rows_come_back_from_lines_and_from_parquet(rows: list[list[Row]]) -> None:
    by_rank = dict(enumerate(rows))
    with tempfile.TemporaryDirectory() as folder:
        run_dir = make_run(Path(folder), by_rank)
        run = load_run(run_dir)
        unsealed = everything(run)
        meant = in_order(by_rank)
        for name, loaded in unsealed.items():
            assert_same(rows_in(loaded), meant[name])
            assert loaded.problems == ()
        for table in TABLES:
            tailed = Tail(run_dir, table).poll().rows.to_pylist()
            assert_same(
                [{key: row[key] for key in row if key != "rank"} for row in tailed],
                by_table(row for of_rank in rows for row in of_rank)[table.name],
            )

        seal_run(run_dir)

        assert list(run_dir.rglob("*.jsonl")) == []
        assert_equal(everything(load_run(run_dir)), unsealed)


@settings(max_examples=30)
@given(
    lines=st.lists(
        st.sampled_from(
            [
                b'{"step":1,"name":"a","value":1.0}',
                b'{"step":2,"name":"a","value":"nan","new":[]}',
                b'{"step":-5,"name":"","value":"-inf","time_ns":null}',
                b'{"step":"1","name":"","value":2}',
                b'{"step":1,"step":2,"name":"a","value":0}',
                b"",
                b"  ",
                b"{}",
                b"\xff\xfe",
                b"\0" * 9,
                b'{"step":1,"na',
                b'{"step":1,\t"name":"a"',
                b"[" * 2000,
            ]
        ),
        max_size=12,
    ),
    ending=st.sampled_from([b"", b"\n"]),
    ranks=st.sampled_from([None, [0], [1], []]),
)
def test_damaged_lines_cost_the_same_sealed_or_not(
    lines: list[bytes], ending: bytes, ranks: list[int] | None
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        run_dir = make_run(Path(folder), {0: [], 1: []})
        (run_dir / "rank_00000" / "metrics.jsonl").write_bytes(b"\n".join(lines) + ending)
        (run_dir / "rank_00001" / "metrics.jsonl").write_bytes(b"\n".join(lines[::2]) + ending)
        run = load_run(run_dir)
        unsealed = {table.name: run.table(table, ranks=ranks) for table in TABLES}

        seal_run(run_dir)

        sealed = {table.name: run.table(table, ranks=ranks) for table in TABLES}
        assert_equal(sealed, unsealed)
        assert load_run(run_dir).problems == run.problems
