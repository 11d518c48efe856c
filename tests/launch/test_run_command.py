"""`probe run` as a person types it: real ranks, real faults, and what is left behind."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from probe.read.run import Run, check_run, load_run
from probe.schema.vocabulary import RunStatus, Severity

ROOT = Path(__file__).parents[2]
DEADLINE_S = 150
TINY = ["--steps", "6", "--width", "32", "--layers", "2", "--length", "16", "--batch", "2"]

pytestmark = pytest.mark.timeout(2 * DEADLINE_S)


def arguments(runs: Path, *words: str) -> list[str]:
    return [sys.executable, "-m", "probe", "run", "--runs-dir", str(runs), "--nproc", "2", *words]


def environment() -> dict[str, str]:
    paths = [str(ROOT), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}


def probe_run(runs: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        arguments(runs, *words),
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        env=environment(),
        cwd=runs.parent,
    )


def only_run(runs: Path) -> Run:
    (path,) = runs.iterdir()
    return load_run(path)


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    return tmp_path / "runs"


def script(folder: Path, body: str) -> Path:
    """A training script of a few lines around the engine."""
    path = folder / "script.py"
    path.write_text(
        "import os, sys, time\n"
        "import torch\n"
        "import engine\n"
        "model = torch.nn.Linear(8, 8)\n"
        "trainer, *_ = engine.initialize(model=model, model_parameters=model.parameters(),\n"
        "    config={'train_micro_batch_size_per_gpu': 2,\n"
        "            'optimizer': {'type': 'AdamW', 'params': {'lr': 1e-3}}})\n"
        "def step():\n"
        "    trainer.backward(trainer(torch.ones(2, 8)).square().mean())\n"
        "    trainer.step()\n" + body
    )
    return path


@pytest.mark.parametrize(
    ("flags", "precision", "stage"),
    [
        (["--stage", "3", "--bf16"], "bf16", 3),
        pytest.param(["--stage", "0", "--fp32"], "fp32", 0, marks=pytest.mark.slow),
    ],
)
def test_the_one_thing_to_learn(runs: Path, flags: list[str], precision: str, stage: int) -> None:
    done = probe_run(runs, str(ROOT / "train.py"), *flags, *TINY)
    assert done.returncode == 0, done.stderr
    assert "loss" in done.stdout
    assert "probe show" in done.stderr

    run = only_run(runs)
    assert run.verdict.status is RunStatus.FINISHED
    config = run.manifest.config
    assert (config.precision, config.stage) == (precision, stage)
    assert run.manifest.exit_codes == {"0": 0, "1": 0}
    assert run.manifest.model.param_elements
    assert not [item for item in check_run(run) if item.severity is Severity.ERROR]
    assert (run.path / "tables/steps.parquet").exists()
    assert not list(run.path.rglob("*.jsonl"))

    steps = run.table("steps").frame()
    assert list(steps["rank"]) == [0] * 6 + [1] * 6
    assert list(steps["step"]) == 2 * list(range(6))
    phases = [name for name in steps if name.endswith("_ns") and name not in NOT_PHASES]
    assert (steps[phases].sum(axis=1) == steps["wall_ns"]).all()
    assert steps["loss"].notna().all()
    assert set(run.table("memory").frame()["rank"]) == {0, 1}
    assert (run.table("comm").frame()["wire_bytes"] >= 0).all()


NOT_PHASES = ("begin_ns", "wall_ns", "recompute_ns")


def test_recording_does_not_change_the_training(runs: Path) -> None:
    words = [str(ROOT / "train.py"), "--stage", "2", "--bf16", *TINY]
    recorded, bare = probe_run(runs, *words), probe_run(runs, "--no-record", *words)
    assert recorded.stdout == bare.stdout != ""
    assert len(list(runs.iterdir())) == 1


def test_a_script_without_the_engine(runs: Path, tmp_path: Path) -> None:
    plain = tmp_path / "plain.py"
    plain.write_text("import sys; print('hello', sys.argv[1:])")
    done = probe_run(runs, str(plain), "--epochs", "2")
    assert done.returncode == 0
    assert sorted(done.stdout.splitlines()) == ["hello ['--epochs', '2']"] * 2
    assert "engine.initialize" in done.stderr
    run = only_run(runs)
    assert run.verdict.status is RunStatus.FINISHED
    events = run.table("events").frame()
    assert list(events["kind"]) == ["finished", "finished"]
    assert (events["size_bytes"] > 10**6).all()


def test_an_exception_on_one_rank(runs: Path, tmp_path: Path) -> None:
    body = "step()\nif trainer.global_rank == 1: raise ValueError('boom')\nstep()\n"
    done = probe_run(runs, str(script(tmp_path, body)))
    assert done.returncode == 1
    assert done.stderr.count("ValueError: boom") >= 1
    assert "engine/worker.py" not in done.stderr
    run = only_run(runs)
    assert run.verdict.status is RunStatus.FAILED
    assert run.manifest.exit_codes["1"] == 1
    events = run.table("events", ranks=[1]).frame()
    assert events["message"].iloc[-1] == "ValueError: boom"
    assert len(run.table("steps", ranks=[1]).frame()) == 1


def test_a_rank_that_leaves_at_once(runs: Path, tmp_path: Path) -> None:
    body = "step()\nif trainer.global_rank == 1: os._exit(3)\nwhile True: step()\n"
    done = probe_run(runs, str(script(tmp_path, body)))
    assert done.returncode == 3
    run = only_run(runs)
    assert run.verdict.status is RunStatus.FAILED
    assert run.verdict.why == "Rank 1 ended with exit code 3."


def test_a_rank_that_is_killed(runs: Path, tmp_path: Path) -> None:
    body = "step()\nif trainer.global_rank == 0: os.kill(os.getpid(), 9)\nwhile True: step()\n"
    done = probe_run(runs, str(script(tmp_path, body)))
    assert done.returncode == 137
    run = only_run(runs)
    assert run.verdict.status is RunStatus.KILLED
    assert "signal 9" in run.verdict.why
    assert len(run.table("steps", ranks=[0]).frame()) == 1


@pytest.fixture
def endless(runs: Path, tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A run in its steps, that only ends when it is told to."""
    path = script(tmp_path, "while True: step()\n")
    process = subprocess.Popen(
        arguments(runs, str(path)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
        start_new_session=True,
    )
    deadline = time.monotonic() + DEADLINE_S
    while not list(runs.glob("*/rank_00001/steps.jsonl")):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.1)
    yield process
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=DEADLINE_S)


def test_an_interrupt_keeps_the_data(runs: Path, endless: subprocess.Popen[str]) -> None:
    endless.send_signal(signal.SIGINT)
    endless.communicate(timeout=DEADLINE_S)
    assert endless.returncode == 130
    run = only_run(runs)
    assert run.verdict.status is RunStatus.INTERRUPTED
    assert len(run.table("steps").frame()) > 0


def test_the_run_directory_is_removed_meanwhile(runs: Path, tmp_path: Path) -> None:
    body = (
        "import shutil, pathlib\n"
        "step()\n"
        "if trainer.global_rank == 0:\n"
        f"    (run,) = pathlib.Path({str(runs)!r}).iterdir()\n"
        "    while run.exists(): shutil.rmtree(run, ignore_errors=True)\n"
        "for _ in range(20): step()\n"
        "print('all steps', trainer.global_steps)\n"
    )
    done = probe_run(runs, str(script(tmp_path, body)))
    assert sorted(done.stdout.splitlines()) == ["all steps 21"] * 2
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("the training goes on without it") == 2


def test_flags_win_over_the_script_and_say_so(runs: Path, tmp_path: Path) -> None:
    config = tmp_path / "ds.json"
    config.write_text(json.dumps({"zero_optimization": {"stage": 1}, "bf16": {"enabled": True}}))
    body = "step()\n"
    done = probe_run(runs, "--config", str(config), "--stage", "2", str(script(tmp_path, body)))
    # The file has no optimizer, so the engine says what is missing; its stage was overridden.
    assert "--stage 2 overrides zero_optimization.stage 1" in done.stderr


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["missing.py"], "There is no script missing.py."),
        (["--config", "no.json", __file__], "There is no configuration no.json."),
        (["--nnodes", "2", __file__], "--rdzv-endpoint"),
    ],
)
def test_what_cannot_work_is_refused_before_anything_starts(
    runs: Path, words: list[str], sentence: str
) -> None:
    done = probe_run(runs, *words)
    assert done.returncode == 2
    assert sentence in done.stderr
    assert not runs.exists()


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("--checkpoint-activations", "all"), "checkpoint_every_block = 1"),
        (("--checkpoint-activations", "3"), "checkpoint_every_block = 3"),
        (("--checkpoint-activations", "off"), "checkpoint_every_block = 0"),
        (("--checkpoint-activations-to", "cpu"), "activations_to_host = True"),
        (("--checkpoint-activations-to", "device"), "activations_to_host = False"),
    ],
)
def test_blocks_that_forget_are_chosen_on_the_command_line(
    runs: Path, words: tuple[str, ...], line: str
) -> None:
    done = probe_run(runs, "--dry-run", *words, str(ROOT / "train.py"))
    assert line in done.stdout


def test_a_choice_of_blocks_that_is_none(runs: Path) -> None:
    done = probe_run(runs, "--dry-run", "--checkpoint-activations", "some", str(ROOT / "train.py"))
    assert done.returncode != 0
    assert "write all, a number, or off" in done.stderr


def test_a_dry_run_starts_nothing(runs: Path) -> None:
    done = probe_run(runs, "--dry-run", str(ROOT / "train.py"), "--stage", "3", "--bf16")
    assert done.returncode == 0
    assert "engine.worker" in done.stdout
    assert "stage = 3" in done.stdout
    assert not runs.exists()
