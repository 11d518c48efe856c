"""`probe sweep`: what is recorded and in which order, going on, failing, and the table."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probe.launch.cells import Cell, Offload, Start, all_cells, start_of, starts_of, sweep_id
from probe.launch.processes import Finished
from probe.launch.processes import Outcome as Ended
from probe.launch.request import RunRequest
from probe.launch.sweep import Plan, record_sweep
from probe.record.run import RunWriter
from probe.schema.documents import Manifest
from probe.schema.vocabulary import Precision, RunStatus

ROOT = Path(__file__).parents[2]
DEADLINE_S = 120

CELLS = st.builds(
    Cell,
    precision=st.sampled_from(Precision),
    stage=st.integers(0, 3),
    offload=st.sampled_from(Offload),
)


def plan_of(cells: list[Cell], runs_dir: Path, repeats: int = 1) -> Plan:
    request = RunRequest(script=ROOT / "train.py", tags=("mine",), runs_dir=runs_dir)
    return Plan(request=request, sweep="abc", cells=tuple(cells), repeats=repeats)


FOUR = all_cells([Precision.FP32, Precision.BF16], [0, 2], [Offload.NONE])


class Launches:
    """Stands for the launcher: writes the manifest of a run that ended as it was told to."""

    def __init__(self, **ends: RunStatus) -> None:
        self.names: list[str] = []
        self._ends = {name.replace("_", "-"): end for name, end in ends.items()}

    def __call__(self, request: RunRequest) -> Finished:
        assert request.name, "a cell names its run"
        self.names.append(request.name)
        status = self._ends.get(request.name, RunStatus.FINISHED)
        writer = RunWriter.create(
            request.runs_dir, Manifest(name=request.name, tags=list(request.tags))
        )
        writer.finish(status, {0: 0 if status is RunStatus.FINISHED else 1})
        outcome = Ended(status=status, exit_codes={}, first=None, code=0)
        return Finished(outcome=outcome, run_dir=writer.path, wall_ns=1_000)


def recorded(plan: Plan, launches: Launches) -> Any:
    return record_sweep(
        plan, launch=launches, on_start=lambda *_: None, on_failure=lambda failure: None
    )


@given(CELLS, st.integers(1, 99))
def test_tags_say_which_start_a_run_is(cell: Cell, number: int) -> None:
    start = Start(cell=cell, number=number)
    every = all_cells(Precision, range(4), Offload)
    manifest = Manifest(tags=["mine", *start.tags("abc")])
    assert start_of(manifest, "abc", every) == start
    assert start_of(manifest, "other", every) is None
    assert start_of(Manifest(tags=["mine"]), "abc", every) is None


@given(st.lists(CELLS, unique=True), st.integers(1, 4))
def test_repeats_are_interleaved(cells: list[Cell], repeats: int) -> None:
    order = list(starts_of(cells, repeats))
    assert [start.cell for start in order] == cells * repeats
    assert len(set(order)) == len(order)


def test_what_cannot_be_combined_says_why() -> None:
    why = {
        (cell.stage, cell.offload): cell.why_not
        for cell in all_cells([Precision.BF16], range(4), Offload)
    }
    assert {place for place, reason in why.items() if reason is None} == {
        *((stage, "none") for stage in range(4)),
        *((stage, word) for stage in (1, 2, 3) for word in ("optimizer", "disk")),
        (3, "params"),
    }
    assert why[0, "disk"] == "offload disk needs stage 1 or above"
    assert why[2, "params"] == "offload params needs stage 3 or above"


def test_another_script_arguments_or_world_is_another_sweep(tmp_path: Path) -> None:
    script = tmp_path / "a.py"
    script.write_text("1")
    known = sweep_id(script, ["--steps", "3"], 2, None)
    assert known == sweep_id(script, ["--steps", "3"], 2, None)
    others = [
        sweep_id(script, ["--steps", "4"], 2, None),
        sweep_id(script, ["--steps", "3"], 4, None),
        sweep_id(script, ["--steps", "3"], 2, script),
    ]
    script.write_text("2")
    others.append(sweep_id(script, ["--steps", "3"], 2, None))
    assert len({known, *others}) == 5


def test_it_goes_on_where_it_stopped(tmp_path: Path) -> None:
    plan = plan_of(FOUR, tmp_path / "runs", repeats=2)
    first = Launches(bf16_stage_0=RunStatus.INTERRUPTED)
    outcome = recorded(plan, first)
    assert outcome.interrupted
    assert first.names == ["fp32-stage-0", "fp32-stage-2", "bf16-stage-0"]
    assert [run.start.cell.name for run in outcome.recorded] == first.names[:2]

    second = Launches()
    outcome = recorded(plan, second)
    assert second.names == ["bf16-stage-0", "bf16-stage-2", *(cell.name for cell in FOUR)]
    assert len(outcome.recorded) == 8
    assert not outcome.interrupted

    third = Launches()
    assert recorded(plan, third).recorded == recorded(plan, third).recorded
    assert third.names == []


def test_a_failure_ends_only_its_own_run_and_is_tried_again(tmp_path: Path) -> None:
    plan = plan_of(FOUR, tmp_path / "runs")
    outcome = recorded(plan, Launches(fp32_stage_2=RunStatus.FAILED))
    assert [failure.start.cell.name for failure in outcome.failures] == ["fp32-stage-2"]
    assert len(outcome.recorded) == 3
    again = Launches()
    assert not recorded(plan, again).failures
    assert again.names == ["fp32-stage-2"]


def test_the_time_that_is_left_follows_from_the_runs_there_are(tmp_path: Path) -> None:
    told: list[tuple[str, int, int, float | None]] = []

    def on_start(start: Start, number: int, count: int, left_ns: float | None) -> None:
        told.append((start.cell.name, number, count, left_ns))

    plan = plan_of(FOUR[:3], tmp_path / "runs")
    record_sweep(plan, launch=Launches(), on_start=on_start, on_failure=lambda failure: None)
    assert told == [
        ("fp32-stage-0", 1, 3, None),
        ("fp32-stage-2", 2, 3, 2_000),
        ("bf16-stage-0", 3, 3, 1_000),
    ]


# - As a person types it


def probe_sweep(folder: Path, *words: str) -> list[str]:
    return [sys.executable, "-m", "probe", "sweep", "--runs-dir", str(folder), *words]


ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "COLUMNS": "120"}
TINY = ["--steps", "14", "--width", "16", "--layers", "1", "--length", "16", "--batch", "2"]


def call(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        probe_sweep(folder, *words),
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        env=ENVIRONMENT,
    )


def test_the_table_of_a_recorded_sweep(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    words = [str(ROOT / "train.py"), "--nproc", "1", "--precisions", "fp32", "--stages", "0,1"]
    plan = call(runs, "--dry-run", *words, "--offloads", "none,optimizer")
    assert plan.stdout.splitlines() == [
        "fp32-stage-0: to record",
        "fp32-stage-1: to record",
        "fp32-stage-1-optimizer: to record",
        "fp32-stage-0-optimizer: left out, offload optimizer needs stage 1 or above",
    ]
    assert not runs.exists()

    words += TINY
    done = call(runs, *words)
    assert done.returncode == 0, done.stderr
    heading, zero, one = done.stdout.splitlines()
    columns = ["prec", "zero", "offload", "step", "±", "against", "first", "peak", "skipped"]
    assert heading.split() == [*columns, "loss"]
    assert zero.split()[:3] == ["fp32", "0", "–"]
    assert one.split()[:3] == ["fp32", "1", "–"]
    starts = [line for line in done.stderr.splitlines() if "·" not in line]
    assert starts[0] == "1/2 fp32-stage-0"
    assert starts[1].startswith("2/2 fp32-stage-1, about ")

    again = json.loads(call(runs, "--json", *words).stdout)
    assert len(list(runs.iterdir())) == 2, "nothing is recorded twice"
    assert again["complete"]
    first, second = again["cells"]
    assert first["figures"]["change"] is None
    assert second["figures"]["change"]["ratio"] > 0
    assert first["figures"]["final_loss"] == second["figures"]["final_loss"]
    assert all(cell["figures"]["step_time_ns"] > 0 for cell in again["cells"])


def test_a_script_that_fails_is_told_with_its_cause(tmp_path: Path) -> None:
    script = tmp_path / "failing.py"
    script.write_text("raise ValueError('no such layer')\n")
    done = call(
        tmp_path / "runs", str(script), "--nproc", "1", "--stages", "0", "--precisions", "fp32"
    )
    assert done.returncode == 1
    assert "fp32-stage-0 failed: ValueError: no such layer; `probe show " in done.stderr
    assert done.stdout.splitlines()[-1].split() == ["fp32", "0", "–", "failed"]


def test_an_interrupt_says_how_to_go_on(tmp_path: Path) -> None:
    script = tmp_path / "endless.py"
    script.write_text("import time\nwhile True: time.sleep(0.1)\n")
    runs = tmp_path / "runs"
    process = subprocess.Popen(
        probe_sweep(runs, str(script), "--nproc", "1", "--stages", "0", "--precisions", "fp32"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT,
        start_new_session=True,
    )
    deadline = time.monotonic() + DEADLINE_S
    try:
        while not list(runs.glob("*/rank_00000/heartbeat")):
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=DEADLINE_S)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == 130
    assert err.endswith("Interrupted with 1 of 1 runs to go; the same command goes on from here.\n")
    assert "not recorded yet" in out


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--stages", "4"], "'4' in --stages is unknown; write any of 0, 1, 2, 3, with commas."),
        (["--precisions", "fp8"], "'fp8' in --precisions is unknown"),
        (["--offloads", ""], "--offloads is empty"),
        (["--stages", "0", "--offloads", "disk"], "offload disk needs stage 1 or above"),
    ],
)
def test_what_cannot_be_swept_is_refused(tmp_path: Path, words: list[str], sentence: str) -> None:
    done = call(tmp_path / "runs", str(ROOT / "train.py"), *words)
    assert done.returncode == 2
    assert sentence in done.stderr
    assert not (tmp_path / "runs").exists()
