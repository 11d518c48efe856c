"""Everything that is understood of one trace, for a page or a command that shows it."""

from collections import Counter
from dataclasses import dataclass

from probe.analyse.trace.activity import find_activity
from probe.analyse.trace.bound import Bound, bound_by, idle_by_cause
from probe.analyse.trace.breakdown import Breakdown, add_up, break_down
from probe.analyse.trace.collectives import CollectiveRow, collective_table
from probe.analyse.trace.critical_path import CriticalPath, PathKind, critical_path
from probe.analyse.trace.gaps import GapCause, Gaps, find_gaps
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

    @property
    def idle_by_cause_ns(self) -> dict[GapCause, int]:
        """The idle time of all steps; the causes sum to that of the total."""
        return idle_by_cause(self.gaps)

    @property
    def bound(self) -> Bound | None:
        """What the window is bound by."""
        return bound_by(self.total, self.idle_by_cause_ns)

    @property
    def path_by_kind_ns(self) -> dict[PathKind, int]:
        """The critical paths of all steps; the kinds sum to the wall time."""
        sums = Counter(dict.fromkeys(PathKind, 0))
        for path in self.paths:
            sums.update(path.by_kind_ns)
        return dict(sums)

    @property
    def path_by_name_ns(self) -> dict[str, int]:
        """The same by kernel, operator or collective, the longest first."""
        sums: Counter[str] = Counter()
        for path in self.paths:
            sums.update(path.by_name_ns)
        return dict(sums.most_common())


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
