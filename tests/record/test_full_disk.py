"""A disk that fills up ends the recording, and nothing else."""

import logging
import os
import resource
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from building import by_table, everything, rows_in, rows_of_step, same

from probe.read.run import check_run, load_run
from probe.record.rank import RankWriter
from probe.record.run import RunWriter
from probe.schema.documents import Header, Manifest
from probe.schema.layout import HEARTBEAT
from probe.schema.rows import Row
from probe.schema.vocabulary import EventKind, RunStatus, Severity

STEPS = 1_000


def train(record: Callable[[list[Row], int], None]) -> list[float]:
    """A loop whose every result depends on all before it."""
    weights = [1.0, -2.0, 3.0]
    losses = []
    for step in range(STEPS):
        losses.append(sum(weight * weight for weight in weights))
        weights = [weight - 0.01 * weight + 1e-4 * losses[-1] for weight in weights]
        record(rows_of_step(step), step)
    return losses


def train_recorded(run_dir: Path) -> tuple[list[float], RankWriter]:
    writer = RankWriter(run_dir, Header(rank=0))

    def record(rows: list[Row], step: int) -> None:
        for row in rows:
            writer.write(row)
        writer.beat(step=step)

    losses = train(record)
    writer.close()
    return losses, writer


@contextmanager
def largest_file(size_bytes: int) -> Iterator[None]:
    """No file of this process grows beyond a size: the kernel writes a part, then refuses."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 256 KiB, where mounting one is allowed."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = shutil.which("mount")
    options = ["-t", "tmpfs", "-o", "size=256k", "tmpfs", str(folder)]
    if mount is None or subprocess.run([mount, *options], capture_output=True).returncode != 0:
        pytest.skip("mounting a tmpfs is not allowed here; the limit on file sizes stands for it")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def assert_only_recording_ended(
    run_dir: Path, losses: list[float], writer: RankWriter, log: pytest.LogCaptureFixture
) -> None:
    assert losses == train(lambda rows, step: None)
    (warning,) = log.records
    assert warning.levelno == logging.WARNING
    assert "the training goes on without it" in warning.getMessage()
    assert 0 < writer.lost_rows < STEPS * len(rows_of_step(0))

    run = load_run(run_dir)
    tables = everything(run)
    # Every row that was written is there, none after the first that was not, and no half line.
    meant = by_table(row for step in range(STEPS) for row in rows_of_step(step))
    count = 0
    for name, loaded in tables.items():
        found = [row for row in rows_in(loaded) if row.get("kind") != EventKind.RECORDING_STOPPED]
        assert all(row.pop("rank") == 0 for row in found)
        assert same(found, meant[name][: len(found)])
        assert loaded.problems == ()
        count += len(found)
    assert count + writer.lost_rows == STEPS * len(rows_of_step(0))
    assert all(item.severity is Severity.WARNING for item in check_run(run)), check_run(run)
    # The heartbeat had its place on the disk from the start, and says what is missing.
    heartbeat = run.evidence[0].heartbeat
    assert heartbeat is not None
    assert heartbeat.message.startswith(f"{writer.lost_rows} rows lost; OSError")
    assert heartbeat.step == STEPS - 1


def test_a_limit_at_the_file_descriptor(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    run_dir = RunWriter.create(tmp_path, Manifest()).path
    with largest_file(50_001):
        losses, writer = train_recorded(run_dir)
    assert_only_recording_ended(run_dir, losses, writer, caplog)
    # The events still took a note of what was lost, at once and at the end.
    notes = [
        row["message"]
        for row in rows_in(load_run(run_dir).table("events"))
        if row["kind"] == EventKind.RECORDING_STOPPED
    ]
    assert notes[0].startswith("1 rows lost; OSError")
    assert notes[-1].startswith(f"{writer.lost_rows} rows lost; OSError")


def test_a_small_disk(small_disk: Path, caplog: pytest.LogCaptureFixture) -> None:
    writer = RunWriter.create(small_disk, Manifest())
    losses, rank = train_recorded(writer.path)
    assert_only_recording_ended(writer.path, losses, rank, caplog)
    caplog.clear()

    writer.finish(RunStatus.FINISHED, {0: 0})

    # The launcher's word may not fit either: then it is a warning, and the heartbeat decides.
    assert load_run(writer.path).verdict.status is RunStatus.FINISHED
    assert len(caplog.records) <= 1


def test_a_disk_that_is_full_from_the_start(
    small_disk: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run_dir = RunWriter.create(small_disk, Manifest()).path
    with (small_disk / "ballast").open("wb", buffering=0) as ballast, pytest.raises(OSError):
        while True:
            ballast.write(bytes(1024))

    losses, writer = train_recorded(run_dir)

    assert losses == train(lambda rows, step: None)
    assert len(caplog.records) == 1
    assert writer.lost_rows == STEPS * len(rows_of_step(0))
    assert load_run(run_dir).table("steps").table.num_rows == 0
    assert not list(run_dir.rglob("*.tmp"))


def test_a_disk_that_fills_within_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every way in which a write can be cut short leaves no torn line."""
    write = os.write
    for taken in range(0, 120, 7):
        run_dir = RunWriter.create(tmp_path, Manifest()).path
        writer = RankWriter(run_dir, Header(rank=0))
        for row in rows_of_step(0):
            writer.write(row)
        left = taken

        def write_what_fits(descriptor: int, content: bytes) -> int:
            nonlocal left
            if left == 0:
                raise OSError(28, "No space left on device")
            written = write(descriptor, content[: min(left, 50)])
            left -= written
            return written

        with monkeypatch.context() as patch:
            patch.setattr(os, "write", write_what_fits)
            writer.write(rows_of_step(1)[0])
            writer.close()

        run = load_run(run_dir)
        assert writer.lost_rows == 1
        assert [len(rows_in(loaded)) for loaded in everything(run).values()] == [1] * 9
        assert [item.what for item in check_run(run)] == []
        assert (run_dir / "rank_00000" / HEARTBEAT).read_bytes().count(b"1 rows lost") == 1


def test_room_that_comes_back_does_not_tear_the_file(tmp_path: Path) -> None:
    run_dir = RunWriter.create(tmp_path, Manifest()).path
    first = RankWriter(run_dir, Header(rank=0))
    for row in rows_of_step(0):
        first.write(row)
    size_bytes = (run_dir / "rank_00000" / "steps.jsonl").stat().st_size
    with largest_file(size_bytes + 10):
        first.write(rows_of_step(1)[0])
    assert first.lost_rows == 1

    second = RankWriter(run_dir, Header(rank=0))
    second.write(rows_of_step(2)[0])
    second.close()

    loaded = load_run(run_dir).table("steps")
    assert [row["step"] for row in rows_in(loaded)] == [0, 2]
    assert loaded.problems == ()
