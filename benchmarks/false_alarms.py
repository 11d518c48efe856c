"""How often two recorded runs of the same program are called different: real A/A pairs.

    python -m benchmarks.false_alarms [--pairs 40] [--steps 200] [--stage 2] [--keep DIR]

Records pairs of a small training run one after the other on this machine, compares each pair as
`probe compare` does, and prints how many were called faster or slower, beside the 5 % that a test
at 95 % may. What another program takes from the machine during one of the two is a real difference:
run it on a machine that has nothing else to do. The simulated pairs are in `compare.py`.
"""

import os
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import click

from benchmarks.machine import describe_machine
from benchmarks.run_directory import Figure, as_table
from probe.analyse.compare.comparison import compare_runs
from probe.analyse.compare.measure import Verdict
from probe.read.run import load_run
from probe.telling.measured import read_run

ROOT = Path(__file__).parents[1]
TINY = ("--width", "64", "--layers", "2", "--length", "32", "--batch", "4")
LARGEST_SHARE = 5.0
DEADLINE_S = 900


@dataclass(frozen=True, kw_only=True)
class Judged:
    """What was said of one pair."""

    verdict: Verdict
    relative: float
    low: float
    high: float


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


def judge_pair(first: Path, second: Path) -> Judged | None:
    """The verdict on step times; None if too few steps count."""
    comparison = compare_runs([[read_run(load_run(path))] for path in (first, second)])
    headline = comparison.pairs[0].headline
    if headline is None or headline.change is None:
        return None
    change = headline.change
    return Judged(
        verdict=headline.verdict,
        relative=change.ratio - 1,
        low=change.low - 1,
        high=change.high - 1,
    )


@click.command()
@click.option("--pairs", default=40, show_default=True, type=click.IntRange(min=1))
@click.option("--steps", default=200, show_default=True, type=click.IntRange(min=10))
@click.option("--stage", default=2, show_default=True, type=click.IntRange(0, 3))
@click.option("--keep", type=click.Path(path_type=Path), help="Folder for the runs; else removed.")
def main(pairs: int, steps: int, stage: int, keep: Path | None) -> None:
    """Record pairs, compare them, count; exit 1 if too many are called different."""
    with tempfile.TemporaryDirectory() as temporary:
        runs = keep or Path(temporary)
        said: Counter[Verdict | None] = Counter()
        for number in range(pairs):
            # Recorded there and back, so that a drift of the machine favours neither side.
            names = (f"a{number:03}", f"b{number:03}")
            order = names if number % 2 == 0 else names[::-1]
            paths = {name: record(runs, name, steps=steps, stage=stage) for name in order}
            judged = judge_pair(*(paths[name] for name in names))
            said[judged.verdict if judged else None] += 1
            if judged is not None:
                print(
                    f"pair {number:3}: {judged.verdict:12} {judged.relative:+.1%} "
                    f"({judged.low:+.1%} to {judged.high:+.1%})",
                    flush=True,
                )
    called = said[Verdict.FASTER] + said[Verdict.SLOWER]
    counts = ", ".join(f"{verdict or 'not judged'} {count}" for verdict, count in said.items())
    figure = Figure(
        what=f"recorded equal runs called different, {pairs} pairs of {steps} steps, stage {stage}",
        value=100 * called / pairs,
        bound=LARGEST_SHARE,
        unit="%",
        spread=counts,
    )
    print(as_table([figure]))
    print(describe_machine())
    sys.exit(0 if figure.kept else 1)


if __name__ == "__main__":
    main()
