"""Everything that can be shown of a run, read once: its numbers, its series and its windows."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from probe.analyse.findings.finding import Finding
from probe.analyse.run_facts import RunFacts
from probe.analyse.series.run_series import COLUMNS as SERIES_COLUMNS
from probe.analyse.series.run_series import RunSeries, run_series
from probe.analyse.steps.headline import Headline
from probe.analyse.trace.activity import find_activity
from probe.analyse.trace.breakdown import Breakdown, add_up, break_down
from probe.analyse.trace.kernels import KernelRow, kernel_table
from probe.analyse.trace.lanes import TraceLanes, trace_lanes
from probe.analyse.trace.operators import OperatorRow, operator_table
from probe.analyse.trace.steps import find_steps
from probe.read.problem import Problem
from probe.read.run import Run
from probe.read.run_traces import TraceFile, find_traces, load_trace
from probe.schema.tables import Table
from probe.telling.run import tell

MOST_WINDOWS = 16
"""Ranks whose profiled window is drawn."""


@dataclass(frozen=True, kw_only=True)
class RankWindow:
    """What ran in the profiled window of one rank."""

    rank: int
    operators: tuple[OperatorRow, ...] = ()
    kernels: tuple[KernelRow, ...] = ()
    """What ran on its device; none on a CPU."""


@dataclass(frozen=True, kw_only=True)
class ProfiledWindow:
    """What the traces of a run tell; empty where none was taken, or where nobody asked."""

    lanes: tuple[TraceLanes, ...] = ()
    """Of the profiled window of each rank."""
    breakdowns: tuple[tuple[str, Breakdown], ...] = ()
    ranks: tuple[RankWindow, ...] = ()
    """Lowest first."""
    left_out: tuple[TraceFile, ...] = ()
    """Windows that were not read, for want of their distilled form."""

    @property
    def lowest(self) -> RankWindow:
        """The first rank's, which stands for all where there is room for one."""
        return self.ranks[0] if self.ranks else RankWindow(rank=0)


@dataclass(frozen=True, kw_only=True)
class WholeRun:
    """One run with all that pages and reports draw."""

    run: Run
    headline: Headline
    facts: RunFacts
    series: RunSeries
    findings: tuple[Finding, ...]
    problems: tuple[Problem, ...]
    window: ProfiledWindow


def tell_whole(run: Run, *, on_table: Callable[[Table], None] = lambda table: None) -> WholeRun:
    """Read each table once, with the columns that numbers and series need, and the traces."""
    return replace(tell_tables(run, on_table=on_table), window=tell_windows(run))


def tell_tables(run: Run, *, on_table: Callable[[Table], None] = lambda table: None) -> WholeRun:
    """The same without the traces, which cost more than all tables together."""
    told = tell(run, on_table=on_table, also=SERIES_COLUMNS)
    return WholeRun(
        run=run,
        headline=told.headline,
        facts=told.facts,
        series=run_series(told.tables, told.facts.counted),
        findings=told.findings,
        problems=told.problems,
        window=ProfiledWindow(),
    )


def tell_windows(run: Run, *, distilled_only: bool = False) -> ProfiledWindow:
    """The first window of each of the lowest ranks that have one.

    A trace as the profiler wrote it takes seconds: who cannot wait reads distilled ones only.
    """
    lanes: list[TraceLanes] = []
    breakdowns: list[tuple[str, Breakdown]] = []
    ranks: list[RankWindow] = []
    left_out: list[TraceFile] = []
    seen: set[int] = set()
    for file in find_traces(run.path):
        if file.rank in seen or len(seen) >= MOST_WINDOWS:
            continue
        seen.add(file.rank)
        if distilled_only and not file.distilled:
            left_out.append(file)
            continue
        trace = load_trace(run.path, file)
        found = trace_lanes(trace, rank=file.rank)
        if found is None:
            continue
        lanes.append(found)
        total = add_up(break_down(find_activity(trace), find_steps(trace).steps))
        breakdowns.append((f"rank {file.rank}", total))
        ranks.append(
            RankWindow(rank=file.rank, operators=operator_table(trace), kernels=kernel_table(trace))
        )
    return ProfiledWindow(
        lanes=tuple(lanes),
        breakdowns=tuple(breakdowns),
        ranks=tuple(ranks),
        left_out=tuple(left_out),
    )
