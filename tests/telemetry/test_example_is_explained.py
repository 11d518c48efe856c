"""The example as a person starts it: its step time is explained, and a delay is named."""

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from probe.analyse.communication.waiting import CALL_COLUMNS, waiting
from probe.analyse.steps.steps import COUNTING_COLUMNS, counted_steps
from probe.read.run import load_run
from probe.schema.tables import COMM, COMM_CALLS, STEPS
from probe.schema.vocabulary import Phase
from tests.engine.cases import config
from tests.engine.team import Team
from tests.telemetry.recorded import begin, micro_batch, recording_into, rows_of

ROOT = Path(__file__).parents[2]
LARGEST_OTHER_SHARE = 0.05
LARGEST_UNEXPLAINED_SHARE = 0.05
SAMPLED_STEP = 3


@pytest.mark.parametrize(
    "stage",
    [pytest.param(0, marks=pytest.mark.slow), pytest.param(2, marks=pytest.mark.slow), 3],
)
@pytest.mark.timeout(300)
def test_compute_and_exposed_communication_explain_the_step(tmp_path: Path, stage: int) -> None:
    command = [sys.executable, "-m", "probe", "run", "--runs-dir", str(tmp_path / "runs")]
    command += ["--nproc", "2", "--stage", str(stage), "--bf16", str(ROOT / "train.py")]
    subprocess.run(
        [*command, "--steps", "12"],
        check=True,
        capture_output=True,
        timeout=240,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)},
        cwd=tmp_path,
    )
    (run_dir,) = (tmp_path / "runs").iterdir()
    exposed_ns: dict[tuple[int, int], int] = {}
    in_optimizer_ns: dict[tuple[int, int], int] = {}
    for row in rows_of(run_dir, COMM):
        key = row["rank"], row["step"]
        chosen = in_optimizer_ns if row["phase"] == Phase.OPTIMIZER else exposed_ns
        chosen[key] = chosen.get(key, 0) + row["exposed_ns"]
    other, unexplained = [], []
    for row in rows_of(run_dir, STEPS):
        if row["step"] < 2:
            continue  # What is built once.
        key, wall = (row["rank"], row["step"]), row["wall_ns"]
        assert sum(row[f"{phase}_ns"] for phase in Phase) == wall
        compute = sum(row[f"{phase}_ns"] for phase in (Phase.DATA, Phase.FORWARD, Phase.BACKWARD))
        compute += row["optimizer_ns"] - in_optimizer_ns.get(key, 0)
        exposed = exposed_ns.get(key, 0) + in_optimizer_ns.get(key, 0)
        other.append(row["other_ns"] / wall)
        unexplained.append((wall - compute - exposed) / wall)
    # A machine that is taken away in between hits single steps, hence the median.
    assert np.median(other) < LARGEST_OTHER_SHARE
    assert -0.001 < np.median(unexplained) < LARGEST_UNEXPLAINED_SHARE
    assert min(unexplained) >= 0, "what was exposed lies within the phases that waited"


def with_a_late_collective(run_dir: str, stage: int, late_rank: int, delay_s: float) -> None:
    """One rank enters one collective of the sampled step late."""
    with recording_into(run_dir):
        trainer = begin(config(stage))
        collectives = trainer.collectives
        reduce = collectives.reduce_scatter_mean
        delayed = {"done": False}

        def late(*arguments: Any, **options: Any) -> Any:
            sampled = trainer.global_steps == SAMPLED_STEP
            if trainer.global_rank == late_rank and sampled and not delayed["done"]:
                delayed["done"] = True
                time.sleep(delay_s)
            return reduce(*arguments, **options)

        collectives.reduce_scatter_mean = late
        for number in range(SAMPLED_STEP + 1):
            micro_batch(trainer, number)
        trainer.close()


@pytest.mark.parametrize(("stage", "late_rank"), [(1, 0), (2, 1), (3, 0)])
def test_a_rank_that_is_late_in_a_collective_is_named_and_the_others_wait(
    teams: dict[int, Team], tmp_path: Path, stage: int, late_rank: int
) -> None:
    delay_s = 0.8
    teams[2].run(
        with_a_late_collective,
        run_dir=str(tmp_path),
        stage=stage,
        late_rank=late_rank,
        delay_s=delay_s,
    )
    run = load_run(tmp_path)
    steps = run.table(STEPS, columns=list(COUNTING_COLUMNS)).table
    found = waiting(run.table(COMM_CALLS, columns=list(CALL_COLUMNS)).table, counted_steps(steps))
    assert found is not None
    assert found.least_waiting_rank == late_rank
    for rank, waited_ns in found.waited_ns.items():
        assert (waited_ns > delay_s / 2 * 1e9) == (rank != late_rank)
