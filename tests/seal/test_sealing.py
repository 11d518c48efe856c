"""Sealing: what it makes, whom it refuses, and that nothing that was readable is lost by it."""

import json
import os
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from building import (
    everything,
    file_of,
    make_run,
    metric_row,
    rows_in,
    rows_of_step,
    same,
    step_row,
    write_rank,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from probe import seal as sealing
from probe.errors import FormatVersionError, NotARunError, ProbeError, RunStateError
from probe.read import digest as digests
from probe.read.run import check_run, load_run
from probe.record.run import RunWriter
from probe.schema.codec import encode_row
from probe.schema.documents import Manifest
from probe.schema.layout import MANIFEST, TABLES_DIR
from probe.schema.tables import METRICS, STEPS, TABLES, Table
from probe.schema.vocabulary import RunStatus, Severity
from probe.seal import seal_run


def all_rows(run_dir: Path) -> dict[str, list[dict[str, object]]]:
    return {name: rows_in(loaded) for name, loaded in everything(load_run(run_dir)).items()}


def steps_in(run_dir: Path, rank: int) -> list[int]:
    loaded = load_run(run_dir).table("metrics", ranks=[rank])
    return [row["step"] for row in rows_in(loaded)]


def test_a_sealed_run_is_one_file_a_table(tmp_path: Path) -> None:
    run_dir = make_run(tmp_path)
    told: list[Table] = []
    report = seal_run(run_dir, on_table=told.append)
    assert told == [item.table for item in report.tables] == list(TABLES)
    assert [item.rows for item in report.tables] == [6] * len(TABLES)
    assert all(item.jsonl_bytes > 0 and item.parquet_bytes > 0 for item in report.tables)
    assert report.kept == ()
    names = sorted(str(path.relative_to(run_dir)) for path in run_dir.rglob("*.*"))
    assert names == sorted(
        [
            MANIFEST,
            "rank_00000/header.json",
            "rank_00001/header.json",
            *(f"{TABLES_DIR}/{table.sealed_name}" for table in TABLES),
        ]
    )


def test_it_is_plain_parquet_for_everyone(tmp_path: Path) -> None:
    rows = {rank: [metric_row(step) for step in (2, 0, 1)] for rank in (1, 0)}
    run_dir = make_run(tmp_path, rows)
    seal_run(run_dir)
    path = run_dir / TABLES_DIR / METRICS.sealed_name
    plain = pq.read_table(path)
    assert plain["rank"].to_pylist() == [0, 0, 0, 1, 1, 1]
    assert plain["step"].to_pylist() == [0, 1, 2, 0, 1, 2]
    assert pq.read_metadata(path).row_group(0).column(0).compression == "ZSTD"
    assert json.loads(pq.read_metadata(path).metadata[b"zeroprobe.sources"]).keys() == {"0", "1"}


def test_sealing_twice_changes_nothing(tmp_path: Path) -> None:
    run_dir = make_run(tmp_path)
    seal_run(run_dir)
    before = {path: path.stat() for path in run_dir.rglob("*") if path.is_file()}
    assert seal_run(run_dir).tables == ()
    assert {path: path.stat() for path in run_dir.rglob("*") if path.is_file()} == before


def test_a_running_run_is_left_alone(tmp_path: Path) -> None:
    run_dir = RunWriter.create(tmp_path, Manifest()).path
    write_rank(run_dir, 0, [metric_row(0)], state=None)
    with pytest.raises(RunStateError, match=r"is running .*--force"):
        seal_run(run_dir)
    assert not (run_dir / TABLES_DIR).exists()
    os.utime(run_dir / "rank_00000" / "heartbeat", (0, 0))
    with pytest.raises(RunStateError, match="is stalled"):
        seal_run(run_dir)
    assert seal_run(run_dir, even_if_running=True).tables[0].rows == 1


def test_rows_that_are_written_while_sealing_are_not_removed(tmp_path: Path) -> None:
    """A run that is sealed by force, or thought dead, may go on writing into a table just read."""
    run_dir = make_run(tmp_path, {0: [step_row(0), metric_row(0)], 1: [step_row(0)]})

    def write_more(table: Table) -> None:
        if table is METRICS:
            with file_of(run_dir, STEPS).open("ab") as file:
                file.write(encode_row(step_row(1)))

    seal_run(run_dir, on_table=write_more)

    assert file_of(run_dir, STEPS).exists()
    assert not file_of(run_dir, STEPS, rank=1).exists()
    steps = rows_in(load_run(run_dir).table("steps"))
    assert [(row["rank"], row["step"]) for row in steps] == [(0, 0), (0, 1), (1, 0)]
    seal_run(run_dir)
    assert rows_in(load_run(run_dir).table("steps")) == steps
    assert list(run_dir.rglob("*.jsonl")) == []


def test_a_run_that_has_just_begun_can_still_record(tmp_path: Path) -> None:
    run_dir = RunWriter.create(tmp_path, Manifest()).path
    assert seal_run(run_dir).tables == ()
    write_rank(run_dir, 0, [metric_row(0)])
    assert seal_run(run_dir).tables[0].rows == 1


def test_other_things_are_refused_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(NotARunError):
        seal_run(tmp_path)
    run_dir = make_run(tmp_path)
    manifest = json.loads((run_dir / MANIFEST).read_text()) | {"format_version": "2.0"}
    (run_dir / MANIFEST).write_text(json.dumps(manifest))
    with pytest.raises(FormatVersionError, match=r"'2\.0'"):
        seal_run(run_dir)


def test_damaged_lines_are_kept_and_the_rest_is_sealed(tmp_path: Path) -> None:
    run_dir = make_run(tmp_path)
    path = file_of(run_dir, STEPS, rank=1)
    path.write_bytes(b"nonsense\n" + path.read_bytes() + b'{"torn')
    damaged = path.read_bytes()
    meant, problems = all_rows(run_dir), check_run(load_run(run_dir))
    assert len(problems) == 2

    report = seal_run(run_dir)

    assert report.kept == ("rank_00001/steps.jsonl.damaged",)
    assert (run_dir / report.kept[0]).read_bytes() == damaged
    assert same(all_rows(run_dir), meant)
    assert check_run(load_run(run_dir)) == problems

    # A mended file in its place is not mistaken for what is sealed, nor is the first one lost.
    path.write_bytes(damaged + b"\nmore nonsense\n")
    report = seal_run(run_dir)
    assert report.kept == ("rank_00001/steps.jsonl.2.damaged",)
    assert (run_dir / "rank_00001/steps.jsonl.damaged").read_bytes() == damaged


def test_a_rank_that_is_copied_later_is_added(tmp_path: Path) -> None:
    run_dir = make_run(tmp_path, {0: [metric_row(0)], 1: [metric_row(1)], 2: [metric_row(2)]})
    late = shutil.move(run_dir / "rank_00001", tmp_path / "rank_00001")
    seal_run(run_dir)
    shutil.copytree(late, run_dir / "rank_00001")
    assert [steps_in(run_dir, rank) for rank in range(3)] == [[0], [1], [2]]

    assert [item.rows for item in seal_run(run_dir).tables] == [3]

    assert [steps_in(run_dir, rank) for rank in range(3)] == [[0], [1], [2]]
    assert not file_of(run_dir, METRICS, rank=1).exists()


def test_a_sealed_rank_without_a_folder_stays(tmp_path: Path) -> None:
    """Empty folders do not survive every copy; the rows in Parquet do not need them."""
    run_dir = make_run(tmp_path, {0: [metric_row(0)], 1: [metric_row(1)]})
    seal_run(run_dir)
    shutil.rmtree(run_dir / "rank_00000")
    write = make_run(tmp_path / "other", {2: [metric_row(2)]}) / "rank_00002"
    shutil.copytree(write, run_dir / "rank_00002")
    seal_run(run_dir)
    assert [steps_in(run_dir, rank) for rank in range(3)] == [[0], [1], [2]]


def test_lines_that_were_sealed_and_come_back_count_once(tmp_path: Path) -> None:
    run_dir = make_run(tmp_path)
    copy = shutil.copytree(run_dir, tmp_path / "copy")
    meant = all_rows(run_dir)
    seal_run(run_dir)
    shutil.copytree(copy, run_dir, dirs_exist_ok=True)
    assert same(all_rows(run_dir), meant)
    assert seal_run(run_dir).tables == ()
    assert same(all_rows(run_dir), meant)
    assert list(run_dir.rglob("*.jsonl")) == []


def test_ranks_share_a_row_group_until_it_is_worth_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sealing, "FEWEST_ROWS_PER_GROUP", 4)
    monkeypatch.setattr(sealing, "MOST_ROWS_PER_GROUP", 6)
    counts = {0: 1, 1: 2, 2: 3, 3: 0, 4: 13, 5: 1}
    rows = {rank: [metric_row(step) for step in range(count)] for rank, count in counts.items()}
    run_dir = make_run(tmp_path, rows)
    seal_run(run_dir)
    written = pq.read_metadata(run_dir / TABLES_DIR / METRICS.sealed_name)
    groups = [written.row_group(number).num_rows for number in range(written.num_row_groups)]
    assert groups == [6, 6, 6, 1, 1]
    for rank, count in counts.items():
        assert steps_in(run_dir, rank) == list(range(count))


def test_a_damaged_seal_is_put_aside_before_a_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be the only place of some rows, so the bytes stay for a repair."""
    monkeypatch.setattr(sealing, "FEWEST_ROWS_PER_GROUP", 1)
    run_dir = make_run(tmp_path, {0: [metric_row(0)], 1: [metric_row(1)]})
    copy = shutil.copytree(run_dir, tmp_path / "copy")
    seal_run(run_dir)
    sealed = run_dir / TABLES_DIR / METRICS.sealed_name
    content = bytearray(sealed.read_bytes())
    content[60] ^= 0xFF  # Within a page of the first rank: the footer is sound.
    sealed.write_bytes(content)
    assert load_run(run_dir).table("metrics").problems != ()
    write = make_run(tmp_path / "other", {2: [metric_row(2)]}) / "rank_00002"
    shutil.copytree(write, run_dir / "rank_00002")

    seal_run(run_dir)

    (aside,) = (run_dir / TABLES_DIR).glob("*.damaged")
    assert aside.read_bytes() == content
    assert [steps_in(run_dir, rank) for rank in (1, 2)] == [[1], [2]]
    assert load_run(run_dir).table("metrics").problems == ()
    # Lines of the lost rank that come from a copy are not taken for sealed ones.
    shutil.copytree(copy / "rank_00000", run_dir / "rank_00000", dirs_exist_ok=True)
    assert steps_in(run_dir, 0) == [0]


def test_what_does_not_read_back_is_not_put_in_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_dir = make_run(tmp_path)
    meant = all_rows(run_dir)
    parquet_file = pq.ParquetFile

    def spoil(path: Path, **options: object) -> pq.ParquetFile:
        content = bytearray(Path(path).read_bytes())
        content[60:120] = bytes(60)
        Path(path).write_bytes(content)
        return parquet_file(path, **options)

    with monkeypatch.context() as patch:
        patch.setattr(sealing.pq, "ParquetFile", spoil)
        with pytest.raises(ProbeError, match="did not read back"):
            seal_run(run_dir)
    assert list((run_dir / TABLES_DIR).iterdir()) == []
    assert same(all_rows(run_dir), meant)


def test_leftovers_of_a_killed_seal_are_ignored_and_removed(tmp_path: Path) -> None:
    run_dir = make_run(tmp_path)
    meant = all_rows(run_dir)
    (run_dir / TABLES_DIR).mkdir()
    (run_dir / TABLES_DIR / "steps.parquet.1234.tmp").write_bytes(b"PAR1 half")
    assert same(all_rows(run_dir), meant)
    assert check_run(load_run(run_dir)) == ()
    seal_run(run_dir)
    assert list(run_dir.rglob("*.tmp")) == []


def test_odd_things_in_place_of_lines_do_not_stop_a_seal(tmp_path: Path) -> None:
    run_dir = make_run(tmp_path)
    file_of(run_dir, STEPS).unlink()
    file_of(run_dir, STEPS).mkdir()
    file_of(run_dir, METRICS).unlink()
    file_of(run_dir, METRICS).symlink_to("/etc/hostname")
    file_of(run_dir, METRICS, rank=1).write_bytes(b"")
    meant = all_rows(run_dir)
    seal_run(run_dir)
    assert same(all_rows(run_dir), meant)
    assert file_of(run_dir, METRICS).is_symlink()
    assert {item.severity for item in check_run(load_run(run_dir))} == {Severity.ERROR}


@settings(max_examples=12)
@given(
    parts=st.lists(
        st.tuples(st.integers(0, 2), st.integers(0, 5), st.booleans()), min_size=1, max_size=5
    )
)
def test_rows_and_seals_in_any_order(
    parts: list[tuple[int, int, bool]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Lines appended by hand to a run that may be sealed: every row is there once, always."""
    tmp_path = tmp_path_factory.mktemp("runs")
    run_dir = make_run(tmp_path, {rank: [] for rank in range(3)})
    written: dict[int, bytes] = dict.fromkeys(range(3), b"")
    for rank, count, seal in parts:
        start = written[rank].count(b"\n")
        for step in range(start, start + count):
            written[rank] += b'{"step":%d,"name":"a","value":1}\n' % step
        # As a copy made anew brings it: the whole file, also what is sealed already.
        file_of(run_dir, METRICS, rank).write_bytes(written[rank])
        if seal:
            seal_run(run_dir)
        for each in range(3):
            assert steps_in(run_dir, each) == list(range(written[each].count(b"\n")))


def test_digests_tell_every_difference_apart() -> None:
    import pyarrow as pa

    tables = [
        pa.table({"a": pa.array(values, kind)})
        for values, kind in (
            ([0.0], pa.float64()),
            ([-0.0], pa.float64()),
            ([float("nan")], pa.float64()),
            ([None], pa.float64()),
            ([0], pa.int64()),
            ([2**53], pa.int64()),
            ([2**53 + 1], pa.int64()),
            ([""], pa.string()),
            ([None], pa.string()),
            (["a", "b"], pa.string()),
            (["b", "a"], pa.string()),
            ([[1], [2, 3]], pa.list_(pa.int64())),
            ([[1, 2], [3]], pa.list_(pa.int64())),
            ([[], None], pa.list_(pa.int64())),
            ([None, []], pa.list_(pa.int64())),
            ([False], pa.bool_()),
            ([True], pa.bool_()),
        )
    ]
    told_apart = {(str(table.schema), digests.digest(table)) for table in tables}
    assert len(told_apart) == len(tables)
    chunked = pa.concat_tables([tables[9].slice(0, 1), tables[9].slice(1)])
    assert digests.digest(chunked) == digests.digest(tables[9])


def test_a_killed_run_is_sealed_as_it_stands(tmp_path: Path) -> None:
    run_dir = RunWriter.create(tmp_path, Manifest()).path
    write_rank(run_dir, 0, rows_of_step(0), state=None)
    RunWriter(run_dir, Manifest(status=RunStatus.KILLED, exit_codes={"0": -9}))
    assert len(seal_run(run_dir).tables) == len(TABLES)
