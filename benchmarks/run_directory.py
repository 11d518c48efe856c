"""What the run directory costs: to write a step, to load, to seal, to follow, to list.

    python -m benchmarks.run_directory [--quick]

Prints one table with each figure, its bound and their ratio. Times are medians of several turns in
one process, except the two of whole processes, which are medians over fresh ones.
"""

import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import click

from benchmarks.synthetic_run import (
    record_synthetic_run,
    rows_for_every_table,
    rows_of_step,
)
from probe.read.discovery import find_runs
from probe.read.run import load_run
from probe.read.tail import Tail
from probe.record.rank import RankWriter
from probe.record.run import RunWriter
from probe.schema.documents import Header, Manifest
from probe.schema.tables import STEPS
from probe.schema.vocabulary import Phase, RunStatus
from probe.seal import seal_run

THREE_COLUMNS = ["step", "wall_ns", "loss"]


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One measured figure beside the bound that it has to keep."""

    what: str
    value: float
    bound: float
    unit: str
    spread: str = ""
    at_least: bool = False

    @property
    def kept(self) -> bool:
        """Whether the bound is kept."""
        return self.value >= self.bound if self.at_least else self.value <= self.bound


def median_s(action: Callable[[], object], turns: int) -> tuple[float, str]:
    """Median duration of an action, and its range."""
    times = []
    for _ in range(turns):
        begin = time.perf_counter()
        action()
        times.append(time.perf_counter() - begin)
    return statistics.median(times), f"{min(times):.4g}–{max(times):.4g} s"


def writing_figure(folder: Path, steps: int) -> Figure:
    """One step of one rank that writes to every table, eight comm rows and the heartbeat."""
    writer = RankWriter(folder / "writing", Header(rank=0))
    chance = random.Random(0)
    times_us = []
    for step in range(steps):
        rows = rows_for_every_table(chance, step=step)
        begin = time.perf_counter_ns()
        for row in rows:
            writer.write(row)
        writer.beat(step=step, phase=Phase.OPTIMIZER, step_wall_ns=150_000_000)
        times_us.append((time.perf_counter_ns() - begin) / 1e3)
    writer.close()
    assert not writer.lost_rows
    low, high = statistics.quantiles(times_us, n=20)[0], statistics.quantiles(times_us, n=20)[-1]
    return Figure(
        what="write one step (all 9 tables, 8 comm rows)",
        value=statistics.median(times_us),
        bound=100,
        unit="µs",
        spread=f"p5–p95 {low:.0f}–{high:.0f} µs",
    )


def reading_figures(folder: Path, ranks: int, steps: int) -> list[Figure]:
    """Load unsealed, seal, load sealed."""
    path = record_synthetic_run(folder / "reading", ranks=ranks, steps=steps, name="reading")
    size = f"{ranks} ranks × {steps:,} steps"

    def load_three() -> None:
        loaded = load_run(path).table("steps", columns=THREE_COLUMNS)
        assert loaded.table.num_rows == ranks * steps
        assert not loaded.problems

    def load_steps() -> None:
        assert load_run(path).table("steps").table.num_rows == ranks * steps

    unsealed, unsealed_spread = median_s(load_three, 5)
    whole, whole_spread = median_s(load_steps, 5)
    begin = time.perf_counter()
    report = seal_run(path)
    seal_s = time.perf_counter() - begin
    sealed, sealed_spread = median_s(load_three, 9)
    shrink = sum(item.jsonl_bytes for item in report.tables) / sum(
        item.parquet_bytes for item in report.tables
    )
    rows = sum(item.rows for item in report.tables)
    return [
        Figure(
            what=f"load unsealed, 3 columns ({size})",
            value=unsealed,
            bound=1.5,
            unit="s",
            spread=unsealed_spread,
        ),
        Figure(
            what="load unsealed, all columns of steps",
            value=whole,
            bound=1.5,
            unit="s",
            spread=whole_spread,
        ),
        Figure(
            what="load sealed, 3 columns",
            value=sealed,
            bound=0.2,
            unit="s",
            spread=sealed_spread,
        ),
        Figure(what=f"seal ({rows:,} rows in all tables)", value=seal_s, bound=5, unit="s"),
        Figure(what="shrink by sealing", value=shrink, bound=8, unit="×", at_least=True),
    ]


def tailing_figure(folder: Path, steps: int) -> Figure:
    """Poll 100 new steps of a long run, again and again."""
    run = RunWriter.create(folder / "tailing", Manifest(name="tailing"))
    writer = RankWriter(run.path, Header(rank=0))
    chance = random.Random(0)

    def write(count: int, start: int) -> None:
        for step in range(start, start + count):
            writer.write(rows_of_step(chance, step=step, ranks=1, begin_ns=0)[0])

    write(steps, 0)
    tail = Tail(run.path, STEPS)
    assert tail.poll().rows.num_rows == steps
    times_ms = []
    for turn in range(20):
        write(100, steps + 100 * turn)
        begin = time.perf_counter()
        news = tail.poll()
        times_ms.append((time.perf_counter() - begin) * 1e3)
        assert news.rows.num_rows == 100
    writer.close()
    return Figure(
        what=f"tail 100 new of {steps:,} steps",
        value=statistics.median(times_ms),
        bound=20,
        unit="ms",
        spread=f"{min(times_ms):.2f}–{max(times_ms):.2f} ms",
    )


def listing_figure(folder: Path, runs: int) -> Figure:
    """Find all runs below a folder, as `probe list` does after its import."""
    for number in range(runs):
        run = RunWriter.create(folder / "listing", Manifest(name=f"run{number}"))
        RankWriter(run.path, Header(rank=0)).close()
        run.finish(RunStatus.FINISHED, {0: 0})
    value, spread = median_s(lambda: find_runs(folder / "listing"), 5)
    return Figure(what=f"list {runs:,} runs", value=value, bound=1, unit="s", spread=spread)


def process_figure(what: str, arguments: list[str], bound_s: float) -> Figure:
    """A whole process of the command line."""
    command = [sys.executable, "-m", "probe", *arguments]
    value, spread = median_s(
        lambda: subprocess.run(command, check=True, stdout=subprocess.DEVNULL), 9
    )
    return Figure(what=what, value=value, bound=bound_s, unit="s", spread=spread)


def as_table(figures: list[Figure]) -> str:
    """The figures as aligned text."""
    head = ("figure", "measured", "bound", "of bound", "spread")
    rows = [
        (
            item.what,
            f"{item.value:.3g} {item.unit}",
            f"{'≥' if item.at_least else '≤'} {item.bound:g} {item.unit}",
            f"{item.value / item.bound:.2f}{'' if item.kept else '  MISSED'}",
            item.spread,
        )
        for item in figures
    ]
    widths = [max(len(row[index]) for row in [head, *rows]) for index in range(len(head))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in [head, *rows]
    )


@click.command()
@click.option("--quick", is_flag=True, help="A tenth of the size: to see that it works.")
def main(quick: bool) -> None:
    """Measure the run directory and print the table; exit 1 if a bound is missed."""
    part = 10 if quick else 1
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        figures.append(writing_figure(folder, 20_000 // part))
        figures += reading_figures(folder, 8, 10_000 // part)
        figures.append(tailing_figure(folder, 100_000 // part))
        figures.append(listing_figure(folder, 1_000 // part))
        figures.append(process_figure("probe --help, whole process", ["--help"], 0.3))
        figures.append(
            process_figure(
                f"probe list of {1_000 // part:,} runs, whole process",
                ["list", str(folder / "listing")],
                1.5,
            )
        )
    print(as_table(figures))
    sys.exit(0 if all(item.kept for item in figures) else 1)


if __name__ == "__main__":
    main()
