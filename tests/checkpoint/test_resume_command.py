"""`probe run --resume` as a person types it: killed while it saves, it goes on bit for bit."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from probe.read.run import Run, check_run, load_run
from probe.schema.layout import CHECKPOINTS_DIR
from probe.schema.tables import EVENTS, STEPS
from probe.schema.vocabulary import EventKind, Severity

ROOT = Path(__file__).parents[2]
DEADLINE_S = 150
TINY = ["--steps", "10", "--width", "32", "--layers", "2", "--length", "16", "--batch", "2"]
SETTING = ["--stage", "3", "--fp16"]

pytestmark = pytest.mark.timeout(4 * DEADLINE_S)

KILLED = f"""
import os, runpy, signal, sys
from engine.checkpoint.saving import Save

write = Save.write

def dies_in_the_middle(self, holdings):
    # Rank 1 has written its part of step 8 and rank 0 nothing yet.
    first_time = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") == "0"
    if first_time and self.main.counters.global_steps == 8 and self.rank == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return write(self, holdings)

Save.write = dies_in_the_middle
runpy.run_path({str(ROOT / "train.py")!r}, run_name="__main__")
"""


def probe_run(runs: Path, *words: str) -> subprocess.CompletedProcess[str]:
    paths = [str(ROOT), os.environ.get("PYTHONPATH", "")]
    return subprocess.run(
        [sys.executable, "-m", "probe", "run", "--runs-dir", str(runs), "--nproc", "2", *words],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(paths)},
        cwd=runs.parent,
    )


def only_run(runs: Path) -> Run:
    (path,) = runs.iterdir()
    return load_run(path)


def told(run: Run) -> dict[int, list[tuple[float, float, float, float]]]:
    """Loss, scale, gradient norm and learning rate of each step, rank by rank; each once."""
    steps: dict[int, dict[int, tuple[float, float, float, float]]] = {}
    for row in run.table(STEPS).table.to_pylist():
        values = row["loss"], row["loss_scale_next"], row["grad_norm"], row["lr"]
        assert row["rank"] not in steps.setdefault(row["step"], {}), "a step counts once"
        steps[row["step"]][row["rank"]] = values
    return {step: [ranks[rank] for rank in sorted(ranks)] for step, ranks in steps.items()}


def kinds(run: Run) -> set[EventKind]:
    return {row["kind"] for row in run.table(EVENTS).table.to_pylist()}


@pytest.fixture(scope="module")
def through(tmp_path_factory: pytest.TempPathFactory) -> dict[int, list[tuple[float, ...]]]:
    """The run that was never interrupted, and never saved."""
    runs = tmp_path_factory.mktemp("through") / "runs"
    done = probe_run(runs, str(ROOT / "train.py"), *SETTING, *TINY)
    assert done.returncode == 0, done.stderr
    return told(only_run(runs))


def test_killed_in_the_next_save_and_resumed(
    tmp_path: Path, through: dict[int, list[tuple[float, ...]]]
) -> None:
    (tmp_path / "killed.py").write_text(KILLED)
    runs = tmp_path / "runs"
    broken = probe_run(
        runs, str(tmp_path / "killed.py"), *SETTING, "--checkpoint-every", "4", *TINY
    )
    assert broken.returncode != 0
    first = only_run(runs)
    left = {each.name for each in (first.path / CHECKPOINTS_DIR).iterdir()}
    assert left == {"global_step4", "latest", ".saving-global_step8"}
    done = probe_run(
        tmp_path / "more",
        str(ROOT / "train.py"),
        *SETTING,
        *["--resume", str(first.path), "--checkpoint-every", "4"],
        *TINY,
    )
    assert done.returncode == 0, done.stderr
    second = only_run(tmp_path / "more")
    assert second.manifest.parent == first.path.name
    assert second.manifest.resumed_from.endswith("global_step4")
    assert told(first) == {step: through[step] for step in range(8)}
    assert told(second) == {step: through[step] for step in range(4, 10)}
    assert {EventKind.CHECKPOINT_SAVED, EventKind.CHECKPOINT_LOADED} <= kinds(second)
    assert not [each for each in check_run(second) if each.severity is Severity.ERROR]
    for row in second.table(STEPS).table.to_pylist():
        phases = [value for name, value in row.items() if name.endswith("_ns")]
        parts = sum(phases) - row["begin_ns"] - row["wall_ns"] - row["recompute_ns"]
        assert parts == row["wall_ns"]
        assert (row["checkpoint_ns"] > 0) == (row["step"] == 8), "saved before the ninth step"


@pytest.mark.slow
def test_restarted_ranks_go_on_from_the_latest(
    tmp_path: Path, through: dict[int, list[tuple[float, ...]]]
) -> None:
    (tmp_path / "killed.py").write_text(KILLED)
    runs = tmp_path / "runs"
    done = probe_run(
        runs,
        str(tmp_path / "killed.py"),
        *SETTING,
        *["--checkpoint-every", "4", "--max-restarts", "1", "--checkpoint-async"],
        *TINY,
    )
    assert done.returncode == 0, done.stderr
    run = only_run(runs)
    assert told(run) == through
    loaded = [
        row
        for row in run.table(EVENTS).table.to_pylist()
        if row["kind"] == EventKind.CHECKPOINT_LOADED
    ]
    assert {row["name"] for row in loaded} == {"global_step4"}
    assert [item for item in check_run(run) if "a restart took back" in item.what]
    assert (run.path / CHECKPOINTS_DIR / "latest").read_text() == "global_step8"


@pytest.mark.parametrize("word", ["latest", "nowhere", "."])
def test_what_cannot_be_resumed_is_said_at_once(tmp_path: Path, word: str) -> None:
    done = probe_run(tmp_path / "runs", str(ROOT / "train.py"), "--resume", word)
    assert done.returncode == 2
    assert f"--resume {word}" in done.stderr and "Traceback" not in done.stderr
