"""Each example as its first lines say it is run, a little shorter, and what is recorded of it."""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from probe.read.run import Run, load_run
from probe.schema.tables import METRICS, OVERFLOW, STEPS
from probe.schema.vocabulary import Precision, RunStatus

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
CONFIGS = EXAMPLES / "configs"
DEADLINE_S = 120


def call(cwd: Path, *words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *map(str, words)],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "COLUMNS": "100"},
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
    )


@pytest.fixture
def record(tmp_path: Path) -> Callable[..., Run]:
    """`probe run`, to a good end; the run it leaves."""

    def recorded(*words: str | Path, ranks: int = 1) -> Run:
        done = call(tmp_path, "-m", "probe", "run", "--nproc", str(ranks), *words)
        assert done.returncode == 0, done.stderr
        run = load_run(max((tmp_path / "runs").iterdir()))
        assert run.verdict.status is RunStatus.FINISHED
        return run

    return recorded


def rows(run: Run, table: Any) -> list[dict[str, Any]]:
    return run.table(table).table.to_pylist()


@pytest.mark.parametrize("precision", ["fp32", pytest.param("bf16", marks=pytest.mark.slow)])
def test_digits_are_learned_and_the_accuracy_recorded(
    record: Callable[..., Run], precision: str
) -> None:
    run = record(EXAMPLES / "digits.py", f"--{precision}", "--epochs", "6")
    accuracy = [row["value"] for row in rows(run, METRICS) if row["name"] == "accuracy"]
    assert len(accuracy) == 6
    assert accuracy[-1] > 0.93


@pytest.mark.parametrize(
    "script", [pytest.param("text_classifier.py", marks=pytest.mark.slow), "translate.py"]
)
def test_transformers_train_in_shards(record: Callable[..., Run], script: str) -> None:
    words = ["--stage", "3", "--bf16", "--steps", "8", "--width", "16", "--batch", "8"]
    run = record(EXAMPLES / script, *words, ranks=2)
    steps = rows(run, STEPS)
    assert len(steps) == 2 * 8
    assert all(row["samples"] == 8 and row["tokens"] for row in steps)
    assert {row["name"] for row in rows(run, METRICS)} & {"accuracy", "right_symbols"}
    assert run.manifest.config.stage == 3


def test_the_overflow_is_diagnosed(record: Callable[..., Run], tmp_path: Path) -> None:
    run = record(EXAMPLES / "overflow.py", ranks=2)
    bad = rows(run, OVERFLOW)
    assert {(row["rank"], row["parameter"], row["micro_batch"]) for row in bad} == {
        (1, "sensor.weight", 1)
    }
    assert [row["step"] for row in bad] == [24, 49, 74, 99]
    heartbeat = run.evidence[0].heartbeat
    assert heartbeat is not None
    assert heartbeat.step == 99, "the last step that ended"
    said = call(tmp_path, "-m", "probe", "show", "latest").stdout
    assert "began in     sensor.weight on rank 1, micro-batch 1 (100.0 % of the overflows)" in said
    assert "sensor.weight is the first to overflow in 4 of 4 steps." in said


def test_a_loop_of_torch_amp_is_recorded(record: Callable[..., Run], tmp_path: Path) -> None:
    run = record(EXAMPLES / "amp_loop.py", "--epochs", "2", "--size", "64")
    assert run.manifest.config.precision is Precision.AMP_FP16
    steps = rows(run, STEPS)
    assert len(steps) == 40
    skipped = [row for row in steps if row["skipped"]]
    assert len(skipped) == sum(row["loss_scale_next"] < row["loss_scale"] for row in steps) > 0
    bad = rows(run, OVERFLOW)
    assert {row["step"] for row in bad} == {row["step"] for row in skipped}
    assert all(row["micro_batch"] == 0 for row in bad if row["role"] == "gradient")
    phases = ("forward_ns", "backward_ns", "optimizer_ns")
    for row in steps:
        assert all(row[phase] > 0 for phase in phases)
        assert sum(row[phase] for phase in (*phases, "data_ns", "other_ns")) == row["wall_ns"]
    # The same numbers without recording.
    bare = call(tmp_path, EXAMPLES / "amp_loop.py", "--epochs", "2", "--size", "64")
    assert bare.returncode == 0, bare.stderr
    printed = f"loss {steps[-1]['loss']:.3f}, scale {steps[-1]['loss_scale_next']:g}\n"
    assert bare.stdout == printed


def test_a_deepspeed_script_takes_its_own_configuration(record: Callable[..., Run]) -> None:
    script = EXAMPLES / "deepspeed_script.py"
    own = record(script, "--steps", "5", "--deepspeed_config", CONFIGS / "zero2_fp16.json", ranks=2)
    assert (own.manifest.config.precision, own.manifest.config.stage) == ("fp16", 2)
    assert own.manifest.config.accumulation_steps == 2
    assert [row["micro_batches"] for row in rows(own, STEPS)] == [2] * 10


@pytest.mark.parametrize(
    ("config", "precision", "stage"),
    [
        ("accelerate_zero2.yaml", "fp16", 2),
        pytest.param("zero3_bf16.json", "bf16", 3, marks=pytest.mark.slow),
    ],
)
def test_a_deepspeed_script_takes_another_configuration(
    record: Callable[..., Run], config: str, precision: str, stage: int
) -> None:
    words = ["--config", CONFIGS / config, EXAMPLES / "deepspeed_script.py", "--steps", "5"]
    run = record(*words, ranks=2)
    assert (run.manifest.config.precision, run.manifest.config.stage) == (precision, stage)
    assert len(rows(run, STEPS)) == 10


def test_the_plain_writers_are_enough(tmp_path: Path) -> None:
    assert call(tmp_path, EXAMPLES / "own_loop.py").returncode == 0
    (run_dir,) = (tmp_path / "runs").iterdir()
    assert len(rows(load_run(run_dir), STEPS)) == 200


def test_every_example_is_in_the_table_and_names_a_command() -> None:
    table = (EXAMPLES / "README.md").read_text()
    for path in EXAMPLES.glob("*.py"):
        assert f"[{path.name}]" in table
        assert re.search(rf"(probe run|python) .*examples/{path.name}", path.read_text()), path
    for path in [*CONFIGS.iterdir()]:
        assert path.name in table + "".join(p.read_text() for p in CONFIGS.glob("*.yaml")), path
