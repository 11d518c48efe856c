"""From a packed trace to step breakdown, overlap and kernel table: ours beside HTA's, by turns.

    python -m benchmarks.trace_reading [TRACE.json.gz ...] [--rounds 7]

Without a trace a synthetic one of 54 MB is made. Every turn is a fresh process that has imported
everything before its clock starts and its peak of memory is forgotten; within a round both take a
turn, in changing order. Ratios are medians over rounds of the ratio within a round, by wall clock
and by processor time; the latter is what counts where other programs run as well.

HTA's numbers are compared with ours under HTA's definitions: device events launched before the last
step, times rounded inward to whole microseconds, the window from the first event to the last.
"""

import json
import math
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median
from typing import Any

import click

from benchmarks.machine import describe_machine
from benchmarks.synthetic_trace import write_synthetic_trace

OURS, WITNESS = "zeroprobe", "hta"
TIME_MARK = 1 / 8
MEMORY_MARK = 1 / 3
SYNTHETIC_MEGABYTES = 54.0
DEADLINE_S = 600


@dataclass(frozen=True, kw_only=True)
class TraceTurn:
    """One reading of a trace by one contestant."""

    wall_s: float
    processor_s: float
    growth_bytes: int
    """Peak of resident memory above that after the imports."""
    numbers: dict[str, Any]


@click.command()
@click.argument("traces", nargs=-1, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--rounds", type=click.IntRange(min=1), default=7, show_default=True)
def main(traces: tuple[Path, ...], rounds: int) -> None:
    """Race on each trace and print the table."""
    for name, value in describe_machine().items():
        if name != "versions":
            print(f"{name:10} {value}")
    packages = ("HolisticTraceAnalysis", "msgspec", "numpy", "pandas")
    print(f"{'versions':10} {', '.join(f'{name} {_version(name)}' for name in packages)}\n")
    with tempfile.TemporaryDirectory(prefix="trace_") as folder:
        if not traces:
            made = Path(folder) / "synthetic_rank0.json.gz"
            traces = (write_synthetic_trace(made, megabytes=SYNTHETIC_MEGABYTES),)
        for trace in traces:
            _race(trace, rounds)


def _race(trace: Path, rounds: int) -> None:
    order = [OURS, WITNESS]
    turns: dict[str, list[TraceTurn]] = {OURS: [], WITNESS: []}
    for _ in range(rounds):
        for name in order:
            turns[name].append(_take_turn(name, trace))
        order.reverse()
    print(f"{trace.name}, {trace.stat().st_size / 1e6:.1f} MB packed, {rounds} rounds")
    print(f"{'':12}{'wall s':>10}{'cpu s':>10}{'memory MB above imports':>26}")
    for name, taken in turns.items():
        print(
            f"{name:12}{median(turn.wall_s for turn in taken):10.3f}"
            f"{median(turn.processor_s for turn in taken):10.3f}"
            f"{median(turn.growth_bytes for turn in taken) / 1e6:26.1f}"
        )
    pairs = list(zip(turns[OURS], turns[WITNESS], strict=True))
    ratios = [
        median(ours.wall_s / theirs.wall_s for ours, theirs in pairs),
        median(ours.processor_s / theirs.processor_s for ours, theirs in pairs),
        median(ours.growth_bytes / theirs.growth_bytes for ours, theirs in pairs),
    ]
    print(f"{'ratio':12}{ratios[0]:10.3f}{ratios[1]:10.3f}{ratios[2]:26.3f}")
    print(f"{'mark':12}{TIME_MARK:10.3f}{TIME_MARK:10.3f}{MEMORY_MARK:26.3f}")
    _print_differences(turns[OURS][0].numbers, turns[WITNESS][0].numbers)


def _print_differences(ours: dict[str, Any], theirs: dict[str, Any]) -> None:
    """Every number that both have, and those that are not the same."""
    keys = sorted(ours.keys() & theirs.keys())
    different = [
        key for key in keys if not math.isclose(ours[key], theirs[key], rel_tol=1e-9, abs_tol=1e-6)
    ]
    missing = sorted(ours.keys() ^ theirs.keys())
    print(f"{len(keys)} numbers compared, {len(different)} different, {len(missing)} of one only")
    for key in different[:10]:
        print(f"  {key[:60]}: ours {ours[key]}, theirs {theirs[key]}")
    for key in missing[:10]:
        print(f"  only {'ours' if key in ours else 'theirs'}: {key[:80]}")
    print()


def _take_turn(name: str, trace: Path) -> TraceTurn:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "benchmarks.trace_reader", name, str(trace)],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    if done.returncode:
        raise click.ClickException(f"{name} failed on {trace.name}:\n{done.stderr[-2000:]}")
    return TraceTurn(**json.loads(done.stdout.splitlines()[-1]))


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


if __name__ == "__main__":
    main()
