"""Everything that is understood of one trace, for a page or a command that shows it."""

from dataclasses import dataclass

from probe.analyse.trace.activity import find_activity
from probe.analyse.trace.breakdown import Breakdown, add_up, break_down
from probe.analyse.trace.collectives import CollectiveRow, collective_table
from probe.analyse.trace.critical_path import CriticalPath, critical_path
from probe.analyse.trace.gaps import Gaps, find_gaps
from probe.analyse.trace.kernels import KernelRow, kernel_table
from probe.analyse.trace.operators import Grouping, OperatorRow, operator_table
from probe.analyse.trace.steps import StepMark, TraceStep, find_steps
from probe.read.problem import Problem
from probe.read.trace import Trace
from probe.schema.trace import TraceFacts


@dataclass(frozen=True, kw_only=True)
class TraceSummary:
    """One trace, understood; `steps`, `breakdowns`, `gaps` and `paths` belong together."""

    facts: TraceFacts
    problems: tuple[Problem, ...]
    events: int
    on_device: bool
    """False where operators stand in for kernels."""
    mark: StepMark
    steps: tuple[TraceStep, ...]
    breakdowns: tuple[Breakdown, ...]
    total: Breakdown
    gaps: tuple[Gaps, ...]
    paths: tuple[CriticalPath, ...]
    operators: tuple[OperatorRow, ...]
    kernels: tuple[KernelRow, ...]
    collectives: tuple[CollectiveRow, ...]


def summarise_trace(trace: Trace, *, grouping: Grouping = Grouping.NAME) -> TraceSummary:
    """All analyses of one trace."""
    found = find_steps(trace)
    activity = find_activity(trace)
    breakdowns = break_down(activity, found.steps)
    return TraceSummary(
        facts=trace.facts,
        problems=trace.problems,
        events=len(trace.events),
        on_device=activity.on_device,
        mark=found.mark,
        steps=found.steps,
        breakdowns=breakdowns,
        total=add_up(breakdowns),
        gaps=find_gaps(trace, activity, found.steps),
        paths=tuple(critical_path(trace, step) for step in found.steps),
        operators=operator_table(trace, grouping=grouping),
        kernels=kernel_table(trace),
        collectives=collective_table(trace),
    )
