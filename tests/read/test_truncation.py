"""A run cut at any byte of any of its files: what was whole is read, and nothing raises."""

import shutil
from pathlib import Path

import pytest
from building import everything, file_of, make_run, rows_in, rows_of_step, same

from probe.read.discovery import find_runs
from probe.read.loading import Loaded
from probe.read.run import check_run, load_run
from probe.read.tail import Tail
from probe.schema.layout import HEADER, HEARTBEAT, MANIFEST, TABLES_DIR
from probe.schema.tables import TABLES, Table
from probe.seal import seal_run


def table_names() -> list[str]:
    return [table.name for table in TABLES]


def run_of(tmp_path: Path, table: Table) -> Path:
    """A run of one rank that wrote a few rows of one table."""
    of_table = [row for step in range(2) for row in rows_of_step(step) if type(row) is table.row]
    return make_run(tmp_path, {0: of_table})


def look_at_everything(run_dir: Path) -> dict[str, Loaded]:
    """All that a reader does with a run; that it does not raise is half of each test."""
    run = load_run(run_dir)
    check_run(run)
    assert [summary.path for summary in find_runs(run_dir.parent)] == [run_dir]
    return everything(run)


@pytest.mark.parametrize("table", TABLES, ids=table_names())
def test_rows_cut_at_every_byte(table: Table, tmp_path: Path) -> None:
    run_dir = run_of(tmp_path, table)
    path = file_of(run_dir, table)
    content = path.read_bytes()
    meant = rows_in(load_run(run_dir).table(table))
    assert len(meant) == 2

    for size in range(len(content), -1, -1):
        with path.open("r+b") as file:
            file.truncate(size)
        whole = content[:size].count(b"\n")

        run = load_run(run_dir)

        loaded = run.table(table)
        assert same(rows_in(loaded), meant[:whole])
        torn = size - (content.rfind(b"\n", 0, size) + 1)
        assert [item.what for item in loaded.problems] == (
            [f"ends within a row ({torn} bytes after the last newline)"] if torn else []
        )
        assert run.problems == ()
        news = Tail(run_dir, table).poll()
        assert same(news.rows.to_pylist(), meant[:whole])
        if size % 64 == 0:  # The other tables do not look at the bytes of this one.
            assert same(rows_in(look_at_everything(run_dir)[table.name]), meant[:whole])


@pytest.mark.parametrize("file", [MANIFEST, f"rank_00000/{HEADER}", f"rank_00000/{HEARTBEAT}"])
def test_documents_cut_at_every_byte(file: str, tmp_path: Path) -> None:
    run_dir = make_run(tmp_path, {0: rows_of_step(0)})
    meant = {name: rows_in(loaded) for name, loaded in everything(load_run(run_dir)).items()}
    path = run_dir / file
    content = path.read_bytes()

    for size in range(len(content.rstrip()) - 1, -1, -1):
        with path.open("r+b") as handle:
            handle.truncate(size)

        run = load_run(run_dir)

        assert [item.file for item in run.problems] == [file]
        assert find_runs(tmp_path)[0].path == run_dir
        if size % 64 == 0:  # The tables do not look at the documents' bytes.
            tables = look_at_everything(run_dir)
            assert same({name: rows_in(loaded) for name, loaded in tables.items()}, meant)


@pytest.mark.parametrize("table", TABLES, ids=table_names())
def test_sealed_tables_cut_at_every_byte(table: Table, tmp_path: Path) -> None:
    run_dir = run_of(tmp_path, table)
    lines = tmp_path / "copy.jsonl"
    shutil.copy(file_of(run_dir, table), lines)
    seal_run(run_dir)
    path = run_dir / TABLES_DIR / table.sealed_name
    content = path.read_bytes()
    run = load_run(run_dir)
    meant = rows_in(run.table(table))
    assert len(meant) == 2

    for size in range(len(content) - 1, -1, -1):
        with path.open("r+b") as file:
            file.truncate(size)

        loaded = run.table(table)

        assert rows_in(loaded) == []
        (problem,) = loaded.problems
        assert problem.file == f"tables/{table.sealed_name}"
        if size % 256 == 0:
            look_at_everything(run_dir)
            assert Tail(run_dir, table).poll().sealed

    # With the lines back in their place, a broken sealed table costs nothing.
    shutil.copy(lines, file_of(run_dir, table))
    assert same(rows_in(run.table(table)), meant)
