"""Ranks that stand still: the launcher says who waits for whom, in which collective."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from probe.__main__ import main
from probe.launch.hang import HangWatch
from probe.read.documents import read_manifest
from probe.record.rank import RankWriter
from probe.schema.documents import Header, LastCollective
from probe.schema.tables import EVENTS
from probe.schema.vocabulary import CollectiveOp, EventKind, Phase, RunStatus
from tests.telemetry.recorded import rows_of

ROOT = Path(__file__).parents[2]
DEADLINE_S = 150.0
ASLEEP_S = 60


def collective(number: int, block: str, *, done: bool) -> LastCollective:
    return LastCollective(sequence=number, op=CollectiveOp.ALL_GATHER, block=block, done=done)


class Ticking:
    """A clock that moves when told to."""

    def __init__(self) -> None:
        self.s = 100.0

    def __call__(self) -> float:
        return self.s


@pytest.fixture
def ranks(tmp_path: Path) -> list[RankWriter]:
    return [RankWriter(tmp_path, Header(rank=rank)) for rank in range(3)]


def test_a_hang_is_told_once_and_names_who_is_waited_for(
    tmp_path: Path, ranks: list[RankWriter]
) -> None:
    clock = Ticking()
    watch = HangWatch(tmp_path, 5.0, now_s=clock)
    for rank in (0, 2):
        ranks[rank].beat(
            step=4, phase=Phase.GATHER_WAIT, collective=collective(57, "b.2", done=False)
        )
    ranks[1].beat(step=4, phase=Phase.FORWARD, collective=collective(56, "b.1", done=True))
    assert watch.look() is None
    clock.s += 4.9
    assert watch.look() is None
    clock.s += 0.2
    hang = watch.look()
    assert hang is not None
    assert (hang.waiting, hang.awaited, hang.step) == ([0, 2], [1], 4)
    assert hang.message == (
        "no move for 5 s; rank 0 waits in all_gather of b.2 (number 57, step 4);"
        " rank 2 waits in all_gather of b.2 (number 57, step 4);"
        " waited for: rank 1, in forward, last entered all_gather of b.1 (number 56, step 4)"
    )
    clock.s += 100
    assert watch.look() is None, "told once"
    for writer in ranks:
        writer.beat(step=5, phase=Phase.FORWARD, collective=collective(58, "b.3", done=True))
    assert watch.look() is None
    clock.s += 6
    again = watch.look()
    assert again is not None and (again.waiting, again.step) == ([], 5)


def test_a_rank_that_ended_does_not_hang(tmp_path: Path, ranks: list[RankWriter]) -> None:
    clock = Ticking()
    watch = HangWatch(tmp_path, 5.0, now_s=clock)
    for writer in ranks:
        writer.close()
    watch.look()
    clock.s += 50
    assert watch.look() is None


def test_a_directory_that_was_removed_is_no_hang(tmp_path: Path) -> None:
    assert HangWatch(tmp_path / "gone", 5.0).look() is None


SCRIPT = f"""
import sys, time
import torch
import engine
from tests.engine.models import batch_of, loss_of
from tests.telemetry.recorded import WORDS, Tied

model = Tied()

def oversleep(module, args):
    if trainer.global_rank == 1 and trainer.global_steps == 2:
        print("asleep", time.time_ns(), flush=True)
        time.sleep({ASLEEP_S})

model.blocks[1].register_forward_pre_hook(oversleep)
trainer, *_ = engine.initialize(model=model, config={{
    "train_micro_batch_size_per_gpu": 4,
    "optimizer": {{"type": "AdamW", "params": {{"lr": 1e-3}}}},
    "zero_optimization": {{"stage": 3, "stage3_prefetch_bucket_size": 0,
                          "stage3_param_persistence_threshold": 0}},
}})
for number in range(4):
    trainer.backward(loss_of(trainer, batch_of(number, trainer.global_rank, words=WORDS)))
    trainer.step()
"""


def test_a_rank_that_oversleeps_a_gather_is_named_while_it_sleeps(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "oversleeping.py"
    script.write_text(SCRIPT)
    command = [sys.executable, "-m", "probe", "run", "--runs-dir", str(tmp_path / "runs")]
    command += ["--nproc", "2", "--hang-timeout", "5", "--hang-end", str(script)]
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        out, err = process.communicate(timeout=DEADLINE_S)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    told = re.search(r"probe: no move for .*", err)
    assert told is not None, err
    assert "rank 0 waits in all_gather of blocks.1 (number" in told[0]
    assert "waited for: rank 1, in forward, last entered" in told[0]
    assert process.returncode != 0
    (run_dir,) = (tmp_path / "runs").iterdir()
    manifest, _ = read_manifest(run_dir)
    assert manifest is not None and manifest.status is RunStatus.FAILED
    (hang,) = manifest.hangs
    assert (hang.waiting, hang.awaited, hang.step) == ([0], [1], 2)
    fell_asleep_ns = int(out.split("asleep ")[1].split()[0])
    assert hang.time_ns - fell_asleep_ns < ASLEEP_S * 1e9
    assert "asleep" in (run_dir / "output.log").read_text()
    # Each rank left an event of its own, and whoever looks later is told.
    events = [row for row in rows_of(run_dir, EVENTS) if row["kind"] == EventKind.HANG]
    by_rank = {row["rank"]: row for row in events}
    assert by_rank[0]["name"] == "all_gather of blocks.1"
    assert "waiting in all_gather of blocks.1 (number" in by_rank[0]["message"]
    assert by_rank[1]["message"].startswith("Not moved for ")
    assert " s, in forward, after " in by_rank[1]["message"]
    assert {row["step"] for row in events} == {2}
    assert all(row["duration_ns"] >= 3.5e9 for row in events)
    assert main(["show", str(run_dir)]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "Before, it hung: no move for" in shown
    assert "Rank 1 held the others up for 5" in shown
    assert main(["list", str(run_dir.parent)]) == 0
    assert "hung" in capsys.readouterr().out
    print(f"told {(hang.time_ns - fell_asleep_ns) / 1e9:.1f} s after it fell asleep")


def test_a_heartbeat_moves_with_the_rank_and_not_by_itself(tmp_path: Path) -> None:
    # GIVEN a session with an engine that stands still
    from engine.recording import PULSE_S, Session, Stand
    from engine.tracing import PhaseClock
    from probe.read.documents import read_heartbeat
    from probe.schema.handover import Handover

    clock = PhaseClock()
    place = {"step": 1}

    def stand() -> Stand:
        return Stand(
            mark=(clock.mark_ns, 7),
            step=place["step"],
            phase=clock.current,
            step_wall_ns=None,
            collective=collective(7, "b", done=False),
        )

    session = Session(Handover(run_dir=str(tmp_path)))
    session.take_over(stand, clock)

    def beaten(step: int) -> int:
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            heartbeat, _, _ = read_heartbeat(tmp_path, 0)
            if heartbeat is not None and heartbeat.step == step:
                return heartbeat.time_ns
            time.sleep(0.01)
        raise AssertionError(f"no heartbeat of step {step}")

    first_ns = beaten(1)
    # WHEN nothing happens for some pulses
    time.sleep(4 * PULSE_S)
    # THEN the heartbeat is what it was, until a phase begins
    assert beaten(1) == first_ns
    place["step"] = 2
    with clock.phase(Phase.FORWARD):
        assert beaten(2) > first_ns
    session.finished()
