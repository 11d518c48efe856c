"""What became of a run, for each kind of evidence there can be."""

import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from building import make_run, metric_row, write_rank

from probe.read.run import load_run
from probe.read.status import (
    PATIENCE_S,
    SETTLING_S,
    RankEvidence,
    Verdict,
    conclude_status,
)
from probe.record.run import RunWriter
from probe.schema.documents import Hang, Header, Heartbeat, Manifest
from probe.schema.layout import MANIFEST
from probe.schema.vocabulary import RankState, RunStatus

NOW_S = 1_000_000.0
HERE = "here"
ROOT = Path(__file__).parents[2]


def evidence(
    state: RankState = RankState.ALIVE,
    *,
    silent_s: float | None = 1.0,
    pid: int | None = os.getpid(),
    host: str = HERE,
    step_s: float = 0.1,
) -> RankEvidence:
    return RankEvidence(
        header=Header(pid=pid, host=host),
        heartbeat=Heartbeat(state=state, step=3, step_wall_ns=int(step_s * 1e9)),
        touched_s=None if silent_s is None else NOW_S - silent_s,
    )


def conclude(manifest: Manifest | None, *ranks: RankEvidence) -> Verdict:
    return conclude_status(manifest, dict(enumerate(ranks)), now_s=NOW_S, host=HERE)


@pytest.fixture(scope="module")
def gone_pid() -> int:
    """The number of a process that is no more."""
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    return process.pid


def test_a_hang_is_a_stall_until_a_rank_moves(gone_pid: int) -> None:
    hang = Hang(time_ns=2000, still_s=9.0, message="no move for 9 s; rank 0 waits in x")
    manifest = Manifest(hangs=[hang])

    def stood(time_ns: int, **facts: Any) -> RankEvidence:
        said = evidence(**facts)
        heartbeat = msgspec.structs.replace(said.heartbeat, time_ns=time_ns)
        return replace(said, heartbeat=heartbeat)

    verdict = conclude(manifest, stood(1000), stood(1500))
    assert verdict.status is RunStatus.STALLED
    assert verdict.why == "It hangs: no move for 9 s; rank 0 waits in x."
    assert conclude(manifest, stood(1000), stood(2500)).status is RunStatus.RUNNING
    assert conclude(manifest, stood(1000, pid=gone_pid, silent_s=60)).status is RunStatus.KILLED
    ended = conclude(Manifest(hangs=[hang], exit_codes={"0": 0, "1": -9}))
    assert ended.why == (
        "Rank 1 was ended by signal 9. Before, it hung: no move for 9 s; rank 0 waits in x."
    )


def test_running() -> None:
    assert conclude(Manifest(), evidence(), evidence()).status is RunStatus.RUNNING
    # The manifest may be missing, and a clock may run ahead.
    assert conclude(None, evidence(silent_s=-5)).status is RunStatus.RUNNING
    # One rank has ended already.
    assert conclude(Manifest(), evidence(), evidence(RankState.CLOSED)).status is RunStatus.RUNNING


def test_long_steps_are_no_stall() -> None:
    assert conclude(None, evidence(silent_s=500, step_s=200)).status is RunStatus.RUNNING
    assert conclude(None, evidence(silent_s=500, step_s=100)).status is RunStatus.STALLED


def test_stalled() -> None:
    verdict = conclude(Manifest(), evidence(), evidence(silent_s=PATIENCE_S + 1))
    assert verdict == Verdict(
        status=RunStatus.STALLED, why=f"Rank 1 has been silent for {PATIENCE_S + 1:.0f} s."
    )


def test_a_process_of_another_host_cannot_be_asked(gone_pid: int) -> None:
    assert conclude(None, evidence(pid=gone_pid, host="there", silent_s=10)).status is (
        RunStatus.RUNNING
    )


def test_killed_by_the_process_that_is_gone(gone_pid: int) -> None:
    verdict = conclude(Manifest(), evidence(), evidence(pid=gone_pid, silent_s=SETTLING_S + 0.1))
    assert verdict.status is RunStatus.KILLED
    assert "rank 1" in verdict.why
    # Just after its last word it may only be on its way out.
    assert conclude(None, evidence(pid=gone_pid, silent_s=0.5)).status is RunStatus.RUNNING
    assert conclude(None, evidence(RankState.CLOSED, pid=gone_pid)).status is RunStatus.FINISHED


@pytest.mark.parametrize("pid", [None, 0, -1, 2**62, 1])
def test_process_numbers_that_cannot_be_asked(pid: int | None) -> None:
    assert conclude(None, evidence(pid=pid, silent_s=10)).status is RunStatus.RUNNING


@pytest.mark.parametrize(
    ("exit_codes", "status"),
    [
        ({"0": 0, "1": 0}, RunStatus.FINISHED),
        ({"0": 0, "1": 1}, RunStatus.FAILED),
        ({"0": -9, "1": 1}, RunStatus.FAILED),
        ({"0": 0, "1": -9}, RunStatus.KILLED),
        ({"0": -15, "1": -9}, RunStatus.KILLED),
    ],
)
def test_exit_codes_decide(exit_codes: dict[str, int], status: RunStatus) -> None:
    closed = evidence(RankState.CLOSED)
    assert conclude(Manifest(exit_codes=exit_codes), closed, closed).status is status
    said = Manifest(status=RunStatus.FINISHED, exit_codes=exit_codes)
    assert conclude(said, closed, closed).status is status


def test_the_rank_that_fell_first_is_named() -> None:
    assert (
        "Rank 2 ended with exit code 3"
        in conclude(Manifest(exit_codes={"0": -15, "1": 0, "2": 3})).why
    )
    assert "Rank 1 was ended by signal 9" in conclude(Manifest(exit_codes={"0": -15, "1": -9})).why


def test_interrupted() -> None:
    manifest = Manifest(status=RunStatus.INTERRUPTED, exit_codes={"0": -2})
    assert conclude(manifest, evidence()).status is RunStatus.INTERRUPTED
    assert conclude(Manifest(status=RunStatus.INTERRUPTED)).status is RunStatus.INTERRUPTED


def test_failed_by_the_word_of_a_rank() -> None:
    verdict = conclude(None, evidence(RankState.CLOSED), evidence(RankState.FAILED))
    assert verdict == Verdict(status=RunStatus.FAILED, why="Rank 1 reported a failure.")


def test_finished_although_the_manifest_could_not_say_so() -> None:
    closed = evidence(RankState.CLOSED, silent_s=10**6)
    assert conclude(Manifest(), closed, closed).status is RunStatus.FINISHED
    assert conclude(None, closed).status is RunStatus.FINISHED


def test_unknown() -> None:
    nothing = RankEvidence(header=None, heartbeat=None, touched_s=None)
    assert conclude(None, nothing).status is RunStatus.UNKNOWN
    assert conclude(Manifest(), nothing).status is RunStatus.UNKNOWN
    assert conclude(None).status is RunStatus.UNKNOWN
    assert conclude(None, evidence(silent_s=None)).status is RunStatus.UNKNOWN


def test_a_real_process_that_is_killed(tmp_path: Path) -> None:
    program = """
import os, socket, sys, time
from pathlib import Path
from probe.record.rank import RankWriter
from probe.schema.documents import Header
header = Header(rank=0, pid=os.getpid(), host=socket.gethostname())
writer = RankWriter(Path(sys.argv[1]), header)
writer.beat(step=1)
print("ready", flush=True)
time.sleep(60)
"""
    run_dir = RunWriter.create(tmp_path, Manifest()).path
    with subprocess.Popen(
        [sys.executable, "-c", program, str(run_dir)],
        env={"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        later_s = time.time() + SETTLING_S + 1
        run = load_run(run_dir)
        assert run.verdict.status is RunStatus.RUNNING
        assert conclude_status(run.manifest, run.evidence, now_s=later_s).status is (
            RunStatus.RUNNING
        )
        process.kill()
    run = load_run(run_dir)
    verdict = conclude_status(run.manifest, run.evidence, now_s=later_s)
    assert verdict.status is RunStatus.KILLED


def test_a_run_on_disk(tmp_path: Path) -> None:
    run_dir = make_run(tmp_path, status=RunStatus.RUNNING)
    assert load_run(run_dir).verdict.status is RunStatus.FINISHED
    (run_dir / MANIFEST).unlink()
    assert load_run(run_dir).verdict.status is RunStatus.FINISHED
    write_rank(run_dir, 2, [metric_row(0)], RankState.FAILED)
    assert load_run(run_dir).verdict.status is RunStatus.FAILED


def test_a_heartbeat_met_half_way_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is rewritten in place, so a read may catch the first bytes of the new and the old rest."""
    from probe.read import documents

    run_dir = make_run(tmp_path)
    read_small = documents.read_small
    torn = 2

    def tear(root: Path, *parts: str, limit_bytes: int) -> bytes:
        nonlocal torn
        content = read_small(root, *parts, limit_bytes=limit_bytes)
        if parts[-1] == "heartbeat" and torn:
            torn -= 1
            return content[:20] + content[30:]
        return content

    monkeypatch.setattr(documents, "read_small", tear)
    run = load_run(run_dir)
    assert (run.problems, torn) == ((), 0)
