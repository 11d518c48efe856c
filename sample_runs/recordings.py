"""What is recorded for the demo and as samples: each a call of `probe run`, and what it shows.

Everything is a path relative to the repository, so that no run says where that lies.
"""

import os
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from probe.commands.choosing import RUNS_DIR_VARIABLE
from probe.read.discovery import RunSummary, find_runs

ROOT = Path(__file__).resolve().parents[1]
ON_DISK = ("--offload", "optimizer", "--offload-to", "disk")
HIGH_SCALE = "examples/configs/fp16_high_scale.json"


@dataclass(frozen=True, kw_only=True)
class Recording:
    """One run to record."""

    name: str
    words: tuple[str, ...]
    """What stands behind `probe run`."""
    shows: str
    kills_rank: int | None = None
    """A rank that is killed in the middle."""

    @property
    def command(self) -> tuple[str, ...]:
        """The call, without the folder that the run goes to."""
        return ("probe", "run", "--name", self.name, *self.words)

    def with_words(self, more: Iterable[str]) -> "Recording":
        """The same with more arguments, for the script."""
        return replace(self, words=(*self.words, *more))


DEMO = (
    Recording(
        name="fp32-stage0",
        words=("train.py", "--fp32", "--stage", "0"),
        shows="the plain run that others are held against",
    ),
    Recording(
        name="fp16-stage2-overflow",
        words=("--config", HIGH_SCALE, "train.py"),
        shows="a loss scale that starts too high: overflows, where they began, what they cost",
    ),
    Recording(
        name="bf16-stage3",
        words=("train.py", "--bf16", "--stage", "3", "--profile-steps", "40:42"),
        shows="everything in shards: less memory, more traffic; a profiled window of rank 0",
    ),
    Recording(
        name="bf16-stage3-disk",
        words=("train.py", "--bf16", "--stage", "3", *ON_DISK),
        shows="optimizer states on disk: what they free and what they cost",
    ),
)

SAMPLES = (
    *DEMO,
    Recording(
        name="overflow-by-design",
        words=("--nproc", "2", "examples/overflow.py"),
        shows="one parameter, on one rank, in one micro-batch, and nothing else",
    ),
    Recording(
        name="killed",
        words=("train.py", "--bf16", "--stage", "2"),
        shows="rank 1 was killed in the middle: what was recorded until then is all there",
        kills_rank=1,
    ),
    Recording(
        name="straggler-4-ranks",
        words=(
            *("--nproc", "4", "examples/text_classifier.py"),
            *("--bf16", "--stage", "2", "--steps", "40", "--slow-rank", "2"),
        ),
        shows="one rank whose data come late, and three that wait for it",
    ),
    *(
        Recording(
            name=f"digits-{precision}",
            words=("examples/digits.py", f"--{precision}"),
            shows=f"accuracy on held-out digits in {precision}",
        )
        for precision in ("fp32", "fp16", "bf16")
    ),
)


def start(recording: Recording, runs_dir: Path, **surroundings: str) -> "subprocess.Popen[bytes]":
    """Begin to record; what the run shows while it goes on is shown here too."""
    call = [sys.executable, "-m", *recording.command]
    # By a variable: in the command it would be written down.
    surroundings[RUNS_DIR_VARIABLE] = str(runs_dir.resolve())
    return subprocess.Popen(call, cwd=ROOT, env={**os.environ, **surroundings})


def newest(recording: Recording, runs_dir: Path) -> RunSummary:
    """The last run that was recorded under its name."""
    return next(run for run in find_runs(runs_dir) if run.manifest.name == recording.name)
