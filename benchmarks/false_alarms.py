"""How often two recorded runs of the same program are called different: real A/A pairs.

    python -m benchmarks.false_alarms [--pairs 40] [--steps 200] [--stage 2] [--keep DIR]

Records pairs of a small training run one after the other on this machine, and asks three things.
*Within one run*: each run is dealt into two by turns of ten steps, so that both saw the same
weather; what is called different there is the fault of the interval. *With history*: each pair as
`probe compare` judges it where the other runs lie beside it. *Alone*: each pair by its two runs,
which cannot know how much runs vary by themselves, and say so. The 5 % that a test at 95 % may be
wrong in bind the first two. What another program takes from the machine during one run is a real
difference: have it do nothing else. The simulated pairs are in `compare.py`.
"""

import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click
import numpy as np

from benchmarks.machine import describe_machine
from benchmarks.run_directory import Figure, as_table
from probe.analyse.compare.change import Change, Direction, compare_medians
from probe.analyse.compare.comparison import compare_runs
from probe.analyse.compare.history import EqualRun
from probe.analyse.compare.measured_run import MeasuredRun
from probe.analyse.statistics.median import estimate_median
from probe.read.run import load_run
from probe.telling.equal_runs import history_of
from probe.telling.measured import read_run

ROOT = Path(__file__).parents[1]
TINY = ("--width", "64", "--layers", "2", "--length", "32", "--batch", "4")
LARGEST_SHARE = 5.0
DEADLINE_S = 900
STRETCH = 10
"""Steps of a turn when a run is dealt into two."""


@dataclass(frozen=True, kw_only=True)
class Asked:
    """One way to ask whether equal runs differ."""

    name: str
    found: list[Change | None]

    @property
    def figure(self) -> Figure:
        """The share of pairs that were called different."""
        said = Counter(item.direction if item else "not judged" for item in self.found)
        alarms = said[Direction.HIGHER] + said[Direction.LOWER]
        return Figure(
            what=f"called different, {self.name}",
            value=100 * alarms / len(self.found),
            bound=LARGEST_SHARE,
            unit="%",
            spread=", ".join(f"{word} {count}" for word, count in said.items()),
        )


def record(runs: Path, name: str, *, steps: int, stage: int) -> Path:
    """One run in fresh processes; where it lies."""
    command = [sys.executable, "-m", "probe", "run", "--runs-dir", str(runs), "--name", name]
    command += ["--nproc", "2", "--stage", str(stage), "--bf16", str(ROOT / "train.py")]
    subprocess.run(
        [*command, "--steps", str(steps), *TINY],
        check=True,
        capture_output=True,
        timeout=DEADLINE_S,
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    (path,) = runs.glob(f"*-{name}")
    return path


def halves(run: MeasuredRun) -> Change | None:
    """A run against itself: every second stretch of its counted steps against the others."""
    times = run.counted.wall_ns.astype(np.float64)
    times = times[: len(times) // (2 * STRETCH) * 2 * STRETCH]
    dealt = times.reshape(-1, 2, STRETCH).swapaxes(0, 1).reshape(2, -1)
    first, second = (estimate_median(half) for half in dealt)
    return compare_medians([first], [second]) if first and second else None


def judge(
    pair: tuple[MeasuredRun, MeasuredRun], history: Sequence[Sequence[EqualRun]] = ()
) -> Change | None:
    """What is said of the step times of a pair; None if too few steps count."""
    headline = compare_runs([[run] for run in pair], history=history).pairs[0].headline
    return headline.change if headline else None


def described(change: Change | None) -> str:
    """A verdict with its interval."""
    if change is None:
        return "not judged"
    ends = f"{change.low - 1:+.1%} to {change.high - 1:+.1%}"
    return f"{change.direction:12} {change.ratio - 1:+6.1%} ({ends})"


@click.command()
@click.option("--pairs", default=40, show_default=True, type=click.IntRange(min=1))
@click.option("--steps", default=200, show_default=True, type=click.IntRange(min=10))
@click.option("--stage", default=2, show_default=True, type=click.IntRange(0, 3))
@click.option("--keep", type=click.Path(path_type=Path), help="Folder for the runs; else removed.")
def main(pairs: int, steps: int, stage: int, keep: Path | None) -> None:
    """Record pairs, compare them, count; exit 1 if too many are called different."""
    with tempfile.TemporaryDirectory() as temporary:
        runs = keep or Path(temporary)
        recorded = []
        for number in range(pairs):
            # Recorded there and back, so that a drift of the machine favours neither side.
            names = (f"a{number:03}", f"b{number:03}")
            order = names if number % 2 == 0 else names[::-1]
            paths = {name: record(runs, name, steps=steps, stage=stage) for name in order}
            first, second = (read_run(load_run(paths[name])) for name in names)
            recorded.append((first, second))
            print(f"pair {number:3}, alone: {described(judge((first, second)))}", flush=True)
        known = [judge(pair, history_of([[run] for run in pair])) for pair in recorded]
    for number, change in enumerate(known):
        print(f"pair {number:3}, with history: {described(change)}")
    bound = [
        Asked(
            name=f"{2 * pairs} runs against themselves",
            found=[halves(run) for pair in recorded for run in pair],
        ),
        Asked(name=f"{pairs} pairs with history", found=known),
    ]
    figures = [item.figure for item in bound]
    alone = Asked(name=f"{pairs} pairs alone", found=[judge(pair) for pair in recorded]).figure
    print(as_table(figures))
    print(f"{alone.what}: {alone.value:.3g} % ({alone.spread})")
    print(f"runs of {steps} steps, stage {stage}; {describe_machine()}")
    sys.exit(0 if all(figure.kept for figure in figures) else 1)


if __name__ == "__main__":
    main()
