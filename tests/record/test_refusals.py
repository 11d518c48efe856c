"""Whatever keeps a rank from recording costs one warning and the rows, never the training."""

import logging
import math
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from building import everything, make_run, metric_row, rows_in, rows_of_step, same, step_row

from probe.errors import ProbeError
from probe.read.documents import read_manifest
from probe.read.run import load_run
from probe.record.rank import RankWriter
from probe.record.run import RunWriter
from probe.schema.documents import GitFacts, Header, LastCollective, Manifest, RunConfig
from probe.schema.layout import HEARTBEAT_BYTES
from probe.schema.rows import EventRow, MetricRow, Row
from probe.schema.vocabulary import EventKind, Phase, RankState, RunStatus
from probe.seal import seal_run

ROOT = Path(__file__).parents[2]


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    return RunWriter.create(tmp_path / "runs", Manifest()).path


def record_all(writer: RankWriter, steps: int = 3) -> None:
    for step in range(steps):
        for row in rows_of_step(step):
            writer.write(row)
        writer.beat(step=step, phase=Phase.OTHER, step_wall_ns=5)
    writer.close()


def only_warning(log: pytest.LogCaptureFixture) -> str:
    (record,) = log.records
    assert record.levelno == logging.WARNING
    return record.getMessage()


def notes_of(run_dir: Path) -> list[str]:
    events = rows_in(load_run(run_dir).table("events"))
    return [row["message"] for row in events if row["kind"] == EventKind.RECORDING_STOPPED]


def test_a_folder_removed_during_the_run(run_dir: Path, caplog: pytest.LogCaptureFixture) -> None:
    writer = RankWriter(run_dir, Header(rank=0))
    writer.write(metric_row(0))
    shutil.rmtree(run_dir)
    writer.write(metric_row(1))  # Into a file that has no name any more: nobody can tell yet.
    writer.beat(step=1)
    record_all(writer)
    assert "was removed" in only_warning(caplog)
    assert writer.lost_rows == 3 * len(rows_of_step(0))
    assert not run_dir.exists()


def test_a_folder_removed_before_the_first_row(
    run_dir: Path, caplog: pytest.LogCaptureFixture
) -> None:
    writer = RankWriter(run_dir, Header(rank=0))
    shutil.rmtree(run_dir)
    record_all(writer)
    assert "No such file or directory" in only_warning(caplog)
    assert writer.lost_rows == 3 * len(rows_of_step(0))


def test_a_table_removed_during_the_run(run_dir: Path, caplog: pytest.LogCaptureFixture) -> None:
    writer = RankWriter(run_dir, Header(rank=0))
    writer.write(metric_row(0))
    (run_dir / "rank_00000" / "metrics.jsonl").unlink()
    record_all(writer, steps=2)
    assert "metrics.jsonl was removed" in only_warning(caplog)
    assert notes_of(run_dir)[-1].startswith("9 rows lost; FileNotFoundError")


def test_a_run_sealed_by_force_while_it_records(
    run_dir: Path, caplog: pytest.LogCaptureFixture
) -> None:
    writer = RankWriter(run_dir, Header(rank=0))
    writer.write(metric_row(0))
    writer.beat(step=0)
    seal_run(run_dir, even_if_running=True)
    writer.beat(step=1)
    assert "or the run sealed" in only_warning(caplog)
    writer.close()
    assert [row["step"] for row in rows_in(load_run(run_dir).table("metrics"))] == [0]
    assert "0 rows lost" in notes_of(run_dir)[-1]


def test_a_sealed_run_takes_nothing_more(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    run_dir = make_run(tmp_path)
    seal_run(run_dir)
    before = sorted(path for path in run_dir.rglob("*"))
    meant = {name: rows_in(loaded) for name, loaded in everything(load_run(run_dir)).items()}

    record_all(RankWriter(run_dir, Header(rank=0)))

    assert "is sealed; record into a new run" in only_warning(caplog)
    assert sorted(path for path in run_dir.rglob("*")) == before
    run = load_run(run_dir)
    assert same({name: rows_in(loaded) for name, loaded in everything(run).items()}, meant)


@pytest.mark.parametrize("path", ["file/below", "/proc/nowhere", "long" * 100, "nul\0byte"])
def test_a_bad_path(path: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_text("")
    record_all(RankWriter(tmp_path / path, Header(rank=0)))
    assert "the training goes on without it" in only_warning(caplog)


@pytest.mark.parametrize(
    "row",
    [
        MetricRow(step=0, name="a", value=object()),  # type: ignore[arg-type]
        MetricRow(step=0, name="a", value="much"),  # type: ignore[arg-type]
        MetricRow(step=0, name="lone \ud800", value=1.0),
        MetricRow(step=0, name="longer than a reader holds" * 50_000, value=1.0),
        step_row(0, samples=object()),
        step_row(0, loss=1j),
        "no row at all",
    ],
)
def test_a_value_that_cannot_be_written(
    row: Row, run_dir: Path, caplog: pytest.LogCaptureFixture
) -> None:
    writer = RankWriter(run_dir, Header(rank=0))
    writer.write(metric_row(0))
    writer.write(row)
    writer.write(metric_row(1))
    writer.close()
    only_warning(caplog)
    assert writer.lost_rows == 2
    run = load_run(run_dir)
    assert [row["step"] for row in rows_in(run.table("metrics"))] == [0]
    assert notes_of(run_dir)[-1].startswith("2 rows lost; ")
    assert [loaded.problems for loaded in everything(run).values()] == [()] * 9


def test_a_row_that_no_reader_takes_costs_itself(run_dir: Path) -> None:
    """Types are not checked in the training loop; what slips through is one reported line."""
    writer = RankWriter(run_dir, Header(rank=0))
    for step in (0, 2**64, "two", None, 4):
        writer.write(metric_row(step))  # type: ignore[arg-type]
    writer.close()
    loaded = load_run(run_dir).table("metrics")
    assert [row["step"] for row in rows_in(loaded)] == [0, 4]
    assert [item.line for item in loaded.problems] == [2, 3, 4]


def test_permission_denied(tmp_path: Path) -> None:
    """As another user, since the superuser is denied nothing."""
    program = """
import os, sys
from pathlib import Path
from probe.errors import ProbeError
from probe.record.rank import RankWriter
from probe.record.run import RunWriter
from probe.schema.documents import Header, Manifest
from probe.schema.rows import MetricRow

folder = Path(sys.argv[1])
run = RunWriter.create(folder, Manifest())
opened = RankWriter(run.path, Header(rank=0))
run.path.chmod(0o500)
(run.path / "rank_00000").chmod(0o500)
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
for writer in (opened, RankWriter(run.path, Header(rank=1))):
    for step in range(10):
        writer.write(MetricRow(step=step, name="a", value=1.0))
        writer.beat(step=step)
    writer.close()
    print(writer.lost_rows)
run.update(name="new")
try:
    RunWriter.create(run.path, Manifest())
except ProbeError as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)],
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    first, second, sentence = done.stdout.splitlines()
    assert (first, second) == ("10", "10")
    assert sentence.startswith("Cannot record into ")
    assert "Permission denied" in sentence
    assert done.stderr.count("recording of rank") == 2
    assert done.stderr.count("Permission denied") == 3, done.stderr


@pytest.mark.parametrize("closing", ["sys.stderr.close()", "sys.stderr = None"])
def test_a_closed_standard_error(closing: str, tmp_path: Path) -> None:
    program = f"""
import os, sys
from pathlib import Path
from probe.record.rank import RankWriter
from probe.record.run import RunWriter
from probe.schema.documents import Header, Manifest
from probe.schema.rows import MetricRow

run = RunWriter.create(Path(sys.argv[1]), Manifest())
{closing}
writer = RankWriter(Path("/proc/nowhere"), Header(rank=0))
writer.write(MetricRow(step=0, name="a", value=1.0))
writer.close()
os.rename(run.path, str(run.path) + ".away")
run.update(name="new")
print("trained")
"""
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)],
        env={"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert (done.stdout, done.returncode) == ("trained\n", 0)


def test_a_log_that_raises(run_dir: Path) -> None:
    class Broken(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            raise RuntimeError("the log is broken as well")

    broken = Broken()
    logging.getLogger("zeroprobe").addHandler(broken)
    try:
        writer = RankWriter(run_dir / "missing" / "\0", Header(rank=0))
        record_all(writer)
        shutil.rmtree(run_dir)
        RunWriter.update(RunWriter.__new__(RunWriter), name="new")
    finally:
        logging.getLogger("zeroprobe").removeHandler(broken)
    assert writer.lost_rows == 3 * len(rows_of_step(0))


def test_closing_twice_says_nothing_new(run_dir: Path, caplog: pytest.LogCaptureFixture) -> None:
    writer = RankWriter(run_dir, Header(rank=0))
    writer.write(metric_row(0))
    writer.beat(step=0)
    writer.close(RankState.FAILED)
    files = {path: path.read_bytes() for path in run_dir.rglob("*.*")}

    writer.close()
    writer.beat(step=5)
    writer.write(metric_row(1))

    assert writer.lost_rows == 1
    assert {path: path.read_bytes() for path in run_dir.rglob("*.*")} == files
    heartbeat = load_run(run_dir).evidence[0].heartbeat
    assert heartbeat is not None
    assert (heartbeat.state, heartbeat.step) == (RankState.FAILED, 0)
    assert caplog.records == []


def test_a_close_that_the_disk_refuses(
    run_dir: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A network file system may speak of a full quota only at the end."""
    close = os.close

    def refuse_once(descriptor: int) -> None:
        monkeypatch.undo()
        close(descriptor)
        raise OSError(122, "Disk quota exceeded")

    writer = RankWriter(run_dir, Header(rank=0))
    writer.write(metric_row(0))
    monkeypatch.setattr(os, "close", refuse_once)
    writer.close()
    assert "Disk quota exceeded" in only_warning(caplog)
    assert "Disk quota exceeded" in notes_of(run_dir)[-1]


def test_a_heartbeat_keeps_its_length(run_dir: Path) -> None:
    writer = RankWriter(run_dir, Header(rank=0))
    path = run_dir / "rank_00000" / "heartbeat"
    for block in ("", "h.0", "é" * 150, "\x01" * 400):
        writer.beat(
            step=2**62, phase=Phase.GATHER_WAIT, collective=LastCollective(sequence=7, block=block)
        )
        assert path.stat().st_size == HEARTBEAT_BYTES
        heartbeat = load_run(run_dir).evidence[0].heartbeat
        assert heartbeat is not None
        assert heartbeat.step == 2**62
        assert heartbeat.collective is None or heartbeat.collective.block == block
    assert writer.stop_reason == ""
    writer.close()


def test_a_manifest_takes_whatever_the_program_holds(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    writer = RunWriter.create(
        tmp_path, Manifest(name="../../<b>é\0", command=["train.py", os.fsdecode(b"\xff\xfe")])
    )
    writer.update(
        config=RunConfig(settings={"dtype": object, "lr": math.nan, "betas": (0.9, 0.999)}),
        git=GitFacts(commit="c0ffee"),
    )
    assert writer.path.parent == tmp_path
    manifest, problems = read_manifest(writer.path)
    assert problems == []
    assert manifest is not None
    assert manifest.command == ["train.py", "\\udcff\\udcfe"]
    assert manifest.config.settings == {
        "dtype": "<class 'object'>",
        "lr": "nan",
        "betas": [0.9, 0.999],
    }
    assert caplog.records == []


def test_a_fact_that_cannot_be_written_does_not_keep_the_end_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Wordless:
        def __str__(self) -> str:
            raise RuntimeError("no words")

    writer = RunWriter.create(tmp_path, Manifest())
    writer.update(config=RunConfig(settings={"model": Wordless()}))
    writer.update(no_such_field=1)
    assert len(caplog.records) == 2

    writer.finish(RunStatus.FINISHED, {1: -9, 0: 0})

    manifest, _ = read_manifest(writer.path)
    assert manifest is not None
    assert manifest.exit_codes == {"0": 0, "1": -9}
    assert manifest.status is RunStatus.FINISHED


def test_a_folder_that_cannot_hold_runs_is_said_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ProbeError, match=r"Cannot record into .*--runs-dir"):
        RunWriter.create(tmp_path / "file" / "runs", Manifest())


def test_runs_of_the_same_moment_get_folders_of_their_own(tmp_path: Path) -> None:
    paths = [
        RunWriter.create(tmp_path, Manifest(name="a", started_ns=10**18)).path for _ in range(3)
    ]
    assert len(set(paths)) == 3
    assert [path.name[-4:] for path in paths[1:]] == ["-a-2", "-a-3"]


def test_an_event_before_the_failure_stays(run_dir: Path) -> None:
    writer = RankWriter(run_dir, Header(rank=0))
    writer.write(EventRow(time_ns=1, kind=EventKind.STARTED))
    writer.write(MetricRow(step=0, name="a", value=b"\xff"))  # type: ignore[arg-type]
    kinds = [row["kind"] for row in rows_in(load_run(run_dir).table("events"))]
    assert kinds == ["started", "recording_stopped"]
    writer.close()
