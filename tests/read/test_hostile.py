"""A run from a stranger: nothing outside of it is read, nothing of it is followed or believed."""

import gzip
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from building import everything, file_of, make_run, metric_row, rows_in
from measuring import GIB, ROOT, read_apart

from probe.errors import ProbeError
from probe.read import lines
from probe.read.columns import arrow_schema
from probe.read.discovery import find_runs
from probe.read.inside import file_names
from probe.read.run import check_run, load_run
from probe.read.tail import Tail
from probe.read.words import plain_schema
from probe.schema.layout import HEADER, HEARTBEAT, MANIFEST, TABLES_DIR
from probe.schema.tables import COMM, METRICS, NUMERICS, STEPS, TABLES, Table
from probe.schema.vocabulary import RunStatus
from probe.seal import seal_run

SECRET = "the-secret-of-somebody-else"
NAMES = ["../../../etc/passwd", "/etc/passwd", "<script>alert(1)</script>", "\x1b[31m\0\u202e", "é"]


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A run of somebody else, full of a secret."""
    rows = {0: [metric_row(step, name=SECRET) for step in range(3)]}
    return make_run(tmp_path / "outside", rows, name=SECRET, notes=SECRET)


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    return make_run(tmp_path / "runs", {0: [metric_row(0)], 1: [metric_row(0)]})


def all_that_is_read(run_dir: Path) -> str:
    """Everything that a reader can show of a run, as one text."""
    run = load_run(run_dir)
    shown: list[object] = [run.manifest, run.evidence, run.verdict, run.problems, check_run(run)]
    shown += [(rows_in(loaded), loaded.problems) for loaded in everything(run).values()]
    shown += [Tail(run_dir, table).poll().rows.to_pylist() for table in TABLES]
    shown += find_runs(run_dir.parent)
    return repr(shown)


@pytest.mark.parametrize(
    "name",
    [
        MANIFEST,
        "rank_00000",
        f"rank_00000/{HEADER}",
        f"rank_00000/{HEARTBEAT}",
        "rank_00000/metrics.jsonl",
        TABLES_DIR,
        f"{TABLES_DIR}/metrics.parquet",
    ],
)
@pytest.mark.parametrize("absolute", [True, False])
def test_links_lead_nowhere(name: str, absolute: bool, hostile: Path, outside: Path) -> None:
    if name.startswith(TABLES_DIR):
        seal_run(outside)
        seal_run(hostile)
    link = hostile / name
    shutil.rmtree(link) if link.is_dir() else link.unlink()
    target = outside / name
    link.symlink_to(target if absolute else os.path.relpath(target, link.parent))
    before = {path: path.read_bytes() for path in outside.rglob("*") if path.is_file()}

    assert SECRET not in all_that_is_read(hostile)
    assert any(item.file.startswith(name.split("/")[0]) for item in check_run(load_run(hostile)))

    # Nor does a seal read or write there.
    with_lines = file_of(hostile, METRICS, rank=1)
    with_lines.write_bytes(b'{"step":9,"name":"a","value":1}\n')
    try:
        seal_run(hostile)
    except ProbeError as error:
        assert name == TABLES_DIR and "could not be sealed" in str(error)
    assert {path: path.read_bytes() for path in outside.rglob("*") if path.is_file()} == before
    assert SECRET not in all_that_is_read(hostile)


def test_a_temporary_file_that_is_a_link_is_not_written_through(
    hostile: Path, tmp_path: Path
) -> None:
    victim = tmp_path / "victim"
    victim.write_text(SECRET)
    (hostile / TABLES_DIR).mkdir()
    for table in TABLES:
        name = f"{table.sealed_name}.{os.getpid()}.tmp"
        (hostile / TABLES_DIR / name).symlink_to(victim)
    seal_run(hostile)
    assert victim.read_text() == SECRET
    assert load_run(hostile).table("metrics").table.num_rows == 2

    # Nor if it is put there at the last moment.
    file_of(hostile, STEPS).write_bytes(b'{"step":1,"begin_ns":1,"wall_ns":1}\n')
    name = f"{STEPS.sealed_name}.{os.getpid()}.tmp"
    with pytest.raises(ProbeError, match="File exists"):
        seal_run(hostile, on_table=lambda table: (hostile / TABLES_DIR / name).symlink_to(victim))
    assert victim.read_text() == SECRET


def test_names_are_text(tmp_path: Path) -> None:
    for name in NAMES:
        rows = {0: [metric_row(0, name=name)]}
        run_dir = make_run(
            tmp_path, rows, name=name, tags=NAMES, command=NAMES, script=name, notes=name
        )
        assert run_dir.parent == tmp_path
        run = load_run(run_dir)
        assert run.problems == ()
        assert run.manifest.tags == NAMES
        assert run.manifest.script == name
        assert rows_in(run.table("metrics"))[0]["name"] == name
        seal_run(run_dir)
        assert rows_in(run.table("metrics"))[0]["name"] == name
    assert len(find_runs(tmp_path)) == len(NAMES)


def test_a_manifest_that_points_elsewhere(hostile: Path, outside: Path) -> None:
    manifest = json.loads((hostile / MANIFEST).read_text())
    manifest |= {
        "run_id": str(outside),
        "script": str(outside / MANIFEST),
        "command": [str(outside / MANIFEST)],
        "tables": str(outside / TABLES_DIR),
        "path": "../../outside",
        "ranks": ["../../outside"],
        "world_size": 2**62,
        "exit_codes": dict.fromkeys([*NAMES, "", "-1", "1e3", "0" * 10_000], 0),
    }
    (hostile / MANIFEST).write_text(json.dumps(manifest))
    run = load_run(hostile)
    assert [row["name"] for row in rows_in(run.table("metrics"))] == ["accuracy"] * 2
    assert run.name == hostile.name
    assert run.verdict.status is RunStatus.FINISHED
    assert len(run.problems) == 1  # So many ranks have no folder.
    assert len(run.problems[0].what) < 200


@pytest.mark.parametrize("code", [1, -9, 2**63 - 1, -(2**63)])
def test_exit_codes_of_odd_ranks(code: int, hostile: Path) -> None:
    manifest = json.loads((hostile / MANIFEST).read_text())
    manifest["exit_codes"] = {"../x": code, "\x1b": 0}
    (hostile / MANIFEST).write_text(json.dumps(manifest))
    verdict = load_run(hostile).verdict
    assert verdict.status is (RunStatus.FAILED if code > 0 else RunStatus.KILLED)
    assert "../x" in verdict.why


def test_files_of_other_names_are_not_touched(hostile: Path) -> None:
    """A bomb of 1 GiB that is called a trace is looked through in bounded memory."""
    bomb = gzip.compress(bytes(1 << 20), compresslevel=1) * 1024
    for place in (hostile, hostile / "rank_00000"):
        for name in ("trace_7.json.gz", "steps.jsonl.gz", "evil.pkl", "manifest.json.tmp"):
            (place / name).write_bytes(bomb)
        os.mkfifo(place / "trace_8.json.gz")
        (place / "trace_9.json.gz").symlink_to("/dev/zero")
    result = read_apart(hostile)
    assert result["peak_bytes"] < GIB
    files = sorted(problem.partition(":")[0] for problem in result["problems"])
    assert files == [f"rank_00000/trace_{step}.json.gz" for step in (7, 8, 9)]
    assert len(file_names(hostile, "rank_00000")) == 9


def write_sealed(run_dir: Path, table: Table, rows: Iterator[pa.Table], **options: object) -> Path:
    """A sealed table by another hand."""
    folder = run_dir / TABLES_DIR
    folder.mkdir(exist_ok=True)
    path = folder / table.sealed_name
    schema = plain_schema(arrow_schema(table))
    with pq.ParquetWriter(path, schema, compression="zstd", **options) as writer:
        for group in rows:
            writer.write_table(group)
    return path


def table_of(table: Table, count: int, **columns: pa.Array) -> pa.Table:
    """So many rows of zeros, apart from the columns given."""
    schema = plain_schema(arrow_schema(table))
    zeros = {
        pa.int64(): pa.scalar(0, pa.int64()),
        pa.int32(): pa.scalar(0, pa.int32()),
        pa.float64(): pa.scalar(0.0),
        pa.string(): pa.scalar(""),
        pa.bool_(): pa.scalar(False),
    }
    arrays = [
        columns[field.name]
        if field.name in columns
        else pa.repeat(zeros[field.type], count)
        if field.type in zeros
        else pa.nulls(count, field.type)
        for field in schema
    ]
    return pa.table(arrays, schema=schema)


def test_parquet_of_very_many_rows(hostile: Path) -> None:
    """Forty million rows of one value are less than a megabyte."""
    group = table_of(METRICS, 10_000_000)
    path = write_sealed(hostile, METRICS, (group for _ in range(4)))
    assert path.stat().st_size < 1 << 20
    result = read_apart(hostile)
    assert any("memory limit" in what for what in result["problems"])
    assert result["peak_bytes"] < GIB
    assert result["rows"]["metrics"] == 2  # Those in JSONL are read all the same.


def test_parquet_of_one_long_word_very_often(hostile: Path) -> None:
    words = pa.DictionaryArray.from_arrays(
        pa.repeat(pa.scalar(0, pa.int32()), 200_000), ["x" * 10**5]
    )
    schema = plain_schema(arrow_schema(METRICS))
    schema = schema.set(schema.get_field_index("name"), pa.field("name", words.type))
    rows = table_of(METRICS, 200_000)
    rows = rows.set_column(rows.schema.get_field_index("name"), "name", words)
    (hostile / TABLES_DIR).mkdir()
    pq.write_table(rows, hostile / TABLES_DIR / METRICS.sealed_name, compression="zstd")
    result = read_apart(hostile)
    assert any("memory limit" in what for what in result["problems"])
    assert result["peak_bytes"] < GIB


def test_parquet_of_words_that_share_beginnings(hostile: Path) -> None:
    names = pa.array([f"{'x' * 20_000}{n}" for n in range(2_000)])
    path = write_sealed(
        hostile,
        METRICS,
        (table_of(METRICS, 2_000, name=names) for _ in range(20)),
        use_dictionary=False,
        column_encoding={"name": "DELTA_BYTE_ARRAY"},
    )
    assert path.stat().st_size < 2 << 20
    result = read_apart(hostile)
    assert any("encoded in a way that is not ours" in what for what in result["problems"])
    assert result["peak_bytes"] < GIB


def test_parquet_of_one_very_long_list(hostile: Path) -> None:
    count = 20_000_000
    values = pa.array(np.zeros(count, np.int64))
    lists = pa.ListArray.from_arrays(pa.array([0, count], pa.int32()), values)
    write_sealed(
        hostile, NUMERICS, (table_of(NUMERICS, 1, exponent_elements=lists) for _ in range(10))
    )
    del values, lists
    result = read_apart(hostile)
    assert any("memory limit" in what for what in result["problems"])
    assert result["peak_bytes"] < GIB


def test_lines_of_very_many_rows(hostile: Path) -> None:
    line = b'{"step":1,"begin_ns":1,"wall_ns":1}\n'
    with file_of(hostile, STEPS).open("wb") as file:
        for _ in range(20):
            file.write(line * 50_000)
    run = load_run(hostile)
    loaded = run.table(STEPS, limit_bytes=100 << 20)
    (problem,) = loaded.problems
    assert "holds more than the memory limit of 100 MiB" in problem.what
    assert 0 < loaded.table.nbytes <= 100 << 20


def test_lines_of_one_long_word_very_often(hostile: Path) -> None:
    """In memory the word is there once, but whoever spells the rows out holds it many times."""
    line = b'{"step":1,"name":"%s","value":1}\n' % (b"x" * 10_000)
    file_of(hostile, METRICS).write_bytes(line * 2_000)
    loaded = load_run(hostile).table(METRICS, limit_bytes=10 << 20)
    (problem,) = loaded.problems
    assert "holds more than the memory limit of 10 MiB" in problem.what
    assert 900 < loaded.table.num_rows <= (10 << 20) // 10_000


def test_a_tail_goes_on_where_the_limit_stopped_it(
    hostile: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "CHUNK_BYTES", 10_000)
    with file_of(hostile, METRICS).open("wb") as file:
        for step in range(3_000):
            file.write(b'{"step":%d,"name":"a","value":1}\n' % step)
    steps: list[int] = []
    tail = Tail(hostile, METRICS, columns=["step"], limit_bytes=8_000)
    while news := tail.poll().rows.to_pylist():
        assert len(news) <= 1_001  # The other rank has one row.
        steps += [row["step"] for row in news]
    assert sorted(steps) == [0, *range(3_000)]


def test_a_sealed_table_of_other_columns(hostile: Path) -> None:
    """Columns of other types, doubled or absent: a problem or a default, never an exception."""
    folder = hostile / TABLES_DIR
    folder.mkdir()
    path = folder / COMM.sealed_name
    one = pa.array([1])
    for columns in (
        {"step": pa.array([[1]]), "rank": one},
        {"step": pa.array(["x"]), "rank": one},
        {"step": pa.array([None], pa.int64()), "rank": pa.array([None], pa.int32())},
        {"step": pa.array([2**63], pa.uint64()), "rank": pa.array([2**40])},
        {"step": pa.array([1.5]), "rank": one},
        {"phase": one, "rank": pa.array([{"a": 1}])},
        {"unknown": one},
        {"step": pa.array([b"\xff"]), "phase": pa.array([b"\xff"])},
    ):
        pq.write_table(pa.table(columns), path)
        for ranks in (None, [0], [1]):
            load_run(hostile).table(COMM, ranks=ranks)
    doubled = pa.Table.from_arrays([one, one], names=["step", "step"])
    pq.write_table(doubled, path)
    assert load_run(hostile).table(COMM).table.num_rows in (0, 1)


@pytest.mark.parametrize(
    "notes",
    [
        {"zeroprobe.sources": "[" * 200_000},
        {"zeroprobe.sources": '{"0": -1}'},
        {"zeroprobe.sources": '{"0": ' + "9" * 30 + "}"},
        {"zeroprobe.sources": '{"0": 1e999}'},
        {"zeroprobe.sources": '{"../x": 1}'},
        {"zeroprobe.sources": b"\xff\xfe"},
        {"zeroprobe.problems": "[" * 200_000},
        {"zeroprobe.problems": '[{"severity": "dreadful"}]'},
        {"zeroprobe.problems": "[[],[],7]"},
        {"zeroprobe.problems": "{}"},
    ],
)
def test_notes_of_a_sealed_table_are_not_believed(
    notes: dict[str, bytes | str], hostile: Path
) -> None:
    schema = plain_schema(arrow_schema(METRICS))
    rows = table_of(METRICS, 1)
    (hostile / TABLES_DIR).mkdir()
    with pq.ParquetWriter(hostile / TABLES_DIR / METRICS.sealed_name, schema) as writer:
        writer.write_table(rows)
        writer.add_key_value_metadata(notes)
    loaded = load_run(hostile).table(METRICS)
    assert loaded.table.num_rows == 3
    assert loaded.problems == ()


def test_twenty_thousand_ranks(tmp_path: Path) -> None:
    run_dir = make_run(tmp_path, {0: [metric_row(0)]})
    model = run_dir / "rank_00000"
    header = msgspec.json.decode((model / HEADER).read_bytes())
    heartbeat = (model / HEARTBEAT).read_bytes()
    for rank in range(1, 20_000):
        folder = run_dir / f"rank_{rank:05d}"
        folder.mkdir()
        if rank < 2_000:
            (folder / HEADER).write_bytes(msgspec.json.encode(header | {"rank": rank}))
            (folder / HEARTBEAT).write_bytes(heartbeat)
            (folder / "metrics.jsonl").write_bytes(b'{"step":1,"name":"a","value":1}\n')
    run = load_run(run_dir)
    assert len(run.ranks) == 20_000
    assert run.table("metrics", columns=["rank"]).table["rank"].to_pylist() == list(range(2_000))
    assert len(check_run(run)) == 2 * 18_000
    (summary,) = find_runs(tmp_path)
    assert summary.ranks == 20_000
    assert Tail(run_dir, METRICS).poll().rows.num_rows == 2_000


def test_nothing_is_executed_or_imported(hostile: Path) -> None:
    """A run that is also the current directory shadows no module."""
    for name in ("probe", "json", "pyarrow", "sitecustomize", "conftest"):
        (hostile / f"{name}.py").write_text("raise SystemExit('executed')")
    program = "import sys; from probe.read.run import check_run, load_run; check_run(load_run('.'))"
    done = subprocess.run(
        [sys.executable, "-P", "-c", program],
        cwd=hostile,
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")
