"""A seal that is killed, starved or raced anywhere loses nothing, and the next one completes."""

import errno
import fcntl
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from building import everything, file_of, make_run, metric_row, rows_in, rows_of_step, same

from probe.errors import ProbeError, RunStateError
from probe.read.run import load_run
from probe.schema.layout import TABLES_DIR
from probe.schema.rows import EventRow, MetricRow, StepRow
from probe.schema.tables import METRICS, STEPS, TABLE_BY_ROW
from probe.seal import seal_run

ROOT = Path(__file__).parents[2]
KILLS = 50
WRITTEN = (StepRow, MetricRow, EventRow)

Kill = Callable[[Path, str, float], bool]


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    """A run of three tables with a bad line and a torn one, so that not all about it is smooth."""
    rows = [row for step in range(3) for row in rows_of_step(step) if type(row) in WRITTEN]
    run_dir = make_run(tmp_path / "whole", {0: rows, 1: rows})
    with file_of(run_dir, METRICS).open("ab") as file:
        file.write(b'nonsense\n{"step":')
    return run_dir


@pytest.fixture
def kill_seal() -> Iterator[Kill]:
    """Begin to seal in a process of its own and kill it; whether it died before its end."""
    with subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("dying_seals.py"))],
        env={"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        asking, answering = process.stdin, process.stdout

        def kill(run_dir: Path, way: str, amount: float) -> bool:
            asking.write(f"{run_dir}\t{way}\t{amount}\n")
            asking.flush()
            return bool(int(answering.readline()))

        yield kill
        asking.close()
        assert process.wait(timeout=30) == 0


def all_of(run_dir: Path) -> dict[str, Any]:
    """Rows and problems of every table."""
    return {
        name: (rows_in(loaded), loaded.problems)
        for name, loaded in everything(load_run(run_dir)).items()
    }


def assert_sealed(run_dir: Path) -> None:
    assert list(run_dir.rglob("*.jsonl")) == []
    assert list(run_dir.rglob("*.tmp")) == []
    assert {path.name for path in (run_dir / TABLES_DIR).iterdir()} == {
        TABLE_BY_ROW[row].sealed_name for row in WRITTEN
    }
    assert [path.name for path in run_dir.rglob("*.damaged")] == ["metrics.jsonl.damaged"]


def test_a_seal_killed_at_each_of_its_steps(whole: Path, tmp_path: Path, kill_seal: Kill) -> None:
    meant = all_of(whole)
    steps = 0
    while True:
        run_dir = shutil.copytree(whole, tmp_path / "run")
        if not kill_seal(run_dir, "step", steps):
            break
        assert same(all_of(run_dir), meant), steps
        seal_run(run_dir)
        assert same(all_of(run_dir), meant), steps
        assert_sealed(run_dir)
        shutil.rmtree(run_dir)
        steps += 1
    # Before and after the flush, the rename and both ranks' removal of each of three tables.
    assert steps >= 3 * (1 + 1 + 2) * 2


def test_a_seal_killed_again_and_again_at_any_moment(
    whole: Path, tmp_path: Path, kill_seal: Kill
) -> None:
    meant = all_of(whole)
    chance = random.Random(0)
    died = 0
    run_dir = shutil.copytree(whole, tmp_path / "run")
    for _ in range(KILLS):
        died += kill_seal(run_dir, "after", chance.uniform(0, 0.05))
        assert same(all_of(run_dir), meant)
        if not list(run_dir.rglob("*.jsonl")):
            assert_sealed(run_dir)
            shutil.rmtree(run_dir)
            shutil.copytree(whole, run_dir)
    assert died > KILLS // 10
    seal_run(run_dir)
    assert same(all_of(run_dir), meant)
    assert_sealed(run_dir)


@pytest.mark.parametrize("size_bytes", [0, 1, 500, 2_000, 3_000, 7_000])
def test_a_disk_that_fills_while_sealing(size_bytes: int, whole: Path) -> None:
    meant = all_of(whole)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, before[1]))
    try:
        with pytest.raises(ProbeError, match=r"could not be sealed.*nothing was lost"):
            seal_run(whole)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    assert list(whole.rglob("*.tmp")) == []
    assert same(all_of(whole), meant)
    seal_run(whole)
    assert same(all_of(whole), meant)
    assert_sealed(whole)


@pytest.mark.parametrize("name", ["replace", "unlink", "fsync", "mkdir"])
def test_a_call_that_fails_once_at_each_place(
    name: str, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    meant = all_of(whole)
    call = getattr(os, name)
    for place in range(40):
        run_dir = shutil.copytree(whole, tmp_path / "run")
        left = place

        def fail_once(*args: Any, **kwargs: Any) -> Any:
            nonlocal left
            left -= 1
            if left == -1:
                raise OSError(errno.EIO, "Input/output error")
            return call(*args, **kwargs)

        with monkeypatch.context() as patch:
            patch.setattr(os, name, fail_once)
            failed = False
            try:
                seal_run(run_dir)
            except ProbeError as error:
                assert "Input/output error" in str(error)
                failed = True
        assert same(all_of(run_dir), meant), place
        seal_run(run_dir)
        assert same(all_of(run_dir), meant), place
        assert_sealed(run_dir)
        shutil.rmtree(run_dir)
        if left >= 0:
            assert not failed
            break
    else:
        raise AssertionError("there is no end of places")


def test_a_second_seal_at_the_same_time_is_refused(whole: Path) -> None:
    (whole / TABLES_DIR).mkdir()
    descriptor = os.open(whole / TABLES_DIR, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    try:
        with pytest.raises(RunStateError, match="is being sealed by another process"):
            seal_run(whole)
    finally:
        os.close(descriptor)
    seal_run(whole)
    assert_sealed(whole)


def test_seals_that_race_seal_once(whole: Path) -> None:
    meant = all_of(whole)
    refused: list[BaseException] = []
    start = threading.Barrier(4)

    def seal() -> None:
        start.wait()
        try:
            seal_run(whole)
        except RunStateError as error:
            refused.append(error)

    threads = [threading.Thread(target=seal) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert len(refused) < 4
    assert same(all_of(whole), meant)
    assert_sealed(whole)


def test_a_load_that_a_seal_overtakes_gives_every_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between its look at Parquet and its look at the lines, the lines may move from one there."""
    from probe.read import loading

    run_dir = make_run(tmp_path)
    run = load_run(run_dir)
    meant = rows_in(run.table(STEPS))
    read_lines = loading.load_rank_lines

    def seal_first(*args: Any, **kwargs: Any) -> Any:
        monkeypatch.undo()
        seal_run(run_dir)
        return read_lines(*args, **kwargs)

    monkeypatch.setattr(loading, "load_rank_lines", seal_first)
    assert same(rows_in(run.table(STEPS)), meant)
    assert not file_of(run_dir, STEPS).exists()

    # And again when a rank that was copied later is added to what is sealed.
    shutil.copytree(make_run(tmp_path / "other") / "rank_00000", run_dir / "rank_00002")
    monkeypatch.setattr(loading, "load_rank_lines", seal_first)
    assert len(rows_in(load_run(run_dir).table(STEPS))) == 9
    assert not file_of(run_dir, STEPS, rank=2).exists()


def test_readers_at_work_while_a_run_is_sealed_see_every_row(tmp_path: Path) -> None:
    for _ in range(5):
        run_dir = make_run(tmp_path, {0: [metric_row(step) for step in range(50)]})
        done = threading.Event()

        def seal(run_dir: Path = run_dir, done: threading.Event = done) -> None:
            try:
                seal_run(run_dir)
            finally:
                done.set()

        thread = threading.Thread(target=seal)
        thread.start()
        run = load_run(run_dir)
        while not done.is_set():
            assert run.table(METRICS).table.num_rows == 50
        thread.join(timeout=60)
        assert run.table(METRICS).table.num_rows == 50
