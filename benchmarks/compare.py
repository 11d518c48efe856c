"""What a comparison costs: whole processes of `probe compare`, and what its statistics promise.

    python -m benchmarks.compare [--quick]

Prints the time of two long sealed runs and of two ordinary ones, as a median over fresh processes,
then how often equal runs are called different and how often a slowdown is found.
"""

import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import click
import numpy as np

from benchmarks.run_directory import Figure, as_table, median_s
from benchmarks.synthetic_run import record_synthetic_run
from probe.analyse.compare.change import Direction, compare_medians
from probe.analyse.statistics.median import estimate_median
from probe.seal import seal_run

TURNS = 5


def process_figure(folder: Path, *, ranks: int, steps: int, seal: bool, bound_s: float) -> Figure:
    """A whole process that compares two runs of this size."""
    paths = [
        record_synthetic_run(folder, ranks=ranks, steps=steps, name=name) for name in ("a", "b")
    ]
    if seal:
        for path in paths:
            seal_run(path)
    command = [sys.executable, "-m", "probe", "compare", *map(str, paths)]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    value, spread = median_s(
        lambda: subprocess.run(command, check=True, stdout=subprocess.DEVNULL), TURNS
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    # What others on the machine take is in the wall time and not in this.
    cpu_s = (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) / TURNS
    kind = "sealed" if seal else "unsealed"
    return Figure(
        what=f"compare two {kind} runs, {ranks} × {steps:,} steps",
        value=value,
        bound=bound_s,
        unit="s",
        spread=f"{spread}, CPU {cpu_s:.2f} s",
    )


def verdict_figure(
    what: str,
    *,
    correlation: float,
    noise: float,
    slower: float,
    pairs: int,
    bound: float,
    at_least: bool,
) -> Figure:
    """Share of pairs that are called different, in per cent."""
    chance = np.random.default_rng(0)
    called = 0
    for _ in range(pairs):
        first = _step_times(chance, correlation, noise)
        second = _step_times(chance, correlation, noise) * (1 + slower)
        sides = [estimate_median(times) for times in (first, second)]
        assert all(sides)
        change = compare_medians([sides[0]], [sides[1]])  # type: ignore[list-item]
        called += change.direction in (Direction.HIGHER, Direction.LOWER)
    return Figure(what=what, value=100 * called / pairs, bound=bound, unit="%", at_least=at_least)


def _step_times(
    chance: np.random.Generator, correlation: float, noise: float, steps: int = 200
) -> np.ndarray:
    """Wall times whose neighbours correlate."""
    fresh = chance.normal(size=steps + 60)
    state = np.empty_like(fresh)
    state[0] = fresh[0]
    for index in range(1, len(fresh)):
        state[index] = correlation * state[index - 1] + (1 - correlation**2) ** 0.5 * fresh[index]
    return 100e6 * (1 + noise * state[60:])


@click.command()
@click.option("--quick", is_flag=True, help="A tenth of the size: to see that it works.")
def main(quick: bool) -> None:
    """Measure comparing and print the table; exit 1 if a bound is missed."""
    part = 10 if quick else 1
    figures = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        figures.append(
            process_figure(folder / "long", ranks=8, steps=10_000 // part, seal=True, bound_s=2)
        )
        figures.append(process_figure(folder / "usual", ranks=2, steps=500, seal=False, bound_s=1))
    figures += [
        verdict_figure(
            f"equal runs called different, autocorrelation {correlation}",
            correlation=correlation,
            noise=0.03,
            slower=0.0,
            pairs=1000 // part,
            bound=5,
            at_least=False,
        )
        for correlation in (0.5, 0.8)
    ]
    figures += [
        verdict_figure(
            f"5 % slowdown found, autocorrelation 0.5, 200 steps, {noise:.0%} noise",
            correlation=0.5,
            noise=noise,
            slower=0.05,
            pairs=500 // part,
            bound=bound,
            at_least=True,
        )
        for noise, bound in ((0.01, 90), (0.03, 90), (0.05, 50), (0.1, 10))
    ]
    print(as_table(figures))
    sys.exit(0 if all(item.kept for item in figures) else 1)


if __name__ == "__main__":
    main()
