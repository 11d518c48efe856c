"""`probe run` onto a disk that fills up: the training ends as it would have without recording."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from probe.read.run import load_run
from probe.schema.vocabulary import EventKind, RunStatus

ROOT = Path(__file__).parents[2]
DEADLINE_S = 150
STEPS = 60
SCRIPT = f"""
import resource, sys
import torch
import engine

torch.manual_seed(0)
model = torch.nn.Linear(8, 8)
trainer, *_ = engine.initialize(
    model=model, model_parameters=model.parameters(),
    config={{"train_micro_batch_size_per_gpu": 2,
             "optimizer": {{"type": "AdamW", "params": {{"lr": 1e-2}}}}}},
)
for step in range({STEPS}):
    if step == 5 and len(sys.argv) > 1:
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]),) * 2)
    loss = trainer((torch.arange(16.0) / (step + 1)).view(2, 8)).square().mean()
    trainer.backward(loss)
    trainer.step()
    if trainer.global_rank == 0:
        print(step, float(loss).hex(), flush=True)
"""

pytestmark = pytest.mark.timeout(2 * DEADLINE_S)


def probe_run(script: Path, runs: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "probe", "run", "--runs-dir", str(runs), "--nproc", "2"]
    return subprocess.run(
        [*command, *words],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)},
        cwd=script.parent,
    )


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("trained") / "script.py"
    path.write_text(SCRIPT)
    return path


@pytest.fixture(scope="module")
def losses(script: Path) -> str:
    """What the script prints without being recorded."""
    done = probe_run(script, script.parent / "none", "--no-record", str(script))
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("\n") == STEPS
    return done.stdout


def test_files_that_may_not_grow(script: Path, losses: str, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    done = probe_run(script, runs, str(script), "12000")
    assert done.returncode == 0, done.stderr
    assert done.stdout == losses
    # Each rank says it once, and the end of the run says why rows are missing.
    assert done.stderr.count("the training goes on without it") == 2
    assert "The recording stopped early" in done.stderr
    (path,) = runs.iterdir()
    run = load_run(path)
    assert run.verdict.status is RunStatus.FINISHED
    steps = run.table("steps").frame()
    assert 5 <= len(steps[steps["rank"] == 0]) < STEPS
    events = run.table("events").frame()
    stopped = events[events["kind"] == EventKind.RECORDING_STOPPED.value]
    assert set(stopped["rank"]) == {0, 1}


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 128 KiB, where mounting one is allowed."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = shutil.which("mount")
    options = ["-t", "tmpfs", "-o", "size=128k", "tmpfs", str(folder)]
    if mount is None or subprocess.run([mount, *options], capture_output=True).returncode != 0:
        pytest.skip("mounting a tmpfs is not allowed here; the limit on file sizes stands for it")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def test_a_disk_that_is_full_for_all(script: Path, losses: str, small_disk: Path) -> None:
    # GIVEN a disk on which little more than the documents has room
    (small_disk / "ballast").write_bytes(b"x" * 40_000)
    done = probe_run(script, small_disk / "runs", str(script))
    # THEN neither the ranks nor the launcher, its log and its sealing mind
    assert done.returncode == 0, done.stderr
    assert done.stdout == losses
    assert done.stderr.count("the training goes on without it") == 2
    assert "Traceback" not in done.stderr
    (path,) = (small_disk / "runs").iterdir()
    assert load_run(path).verdict.status is RunStatus.FINISHED
