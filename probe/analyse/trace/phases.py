"""The phases of a traced step, concluded from what launched each piece of work.

What `Optimizer.step` launched is the optimizer's; what autograd's functions launched is backward's;
what a DataLoader launched is data; all other computation is forward's. Exposed communication is a
wait for a gather or for a reduction, by its operation. Idle time under an annotated DataLoader is
data too. The rest (copies, other idle time) is nobody's. So the phases sum to the wall time, as
those that our engine records do.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from probe.analyse.trace.activity import Activity, covered, matches
from probe.analyse.trace.collectives import CollectiveCalls, operation_of
from probe.analyse.trace.gaps import LOADING, GapCause, Gaps
from probe.analyse.trace.intervals import Intervals, intersect, subtract, union
from probe.analyse.trace.launches import find_launches
from probe.analyse.trace.steps import TraceStep
from probe.read.trace import NONE, Int64s, Mask, Trace
from probe.schema.vocabulary import CollectiveOp, Phase, TraceCategory

_UPDATING = re.compile(r"Optimizer\.step#|optimizer$|## optimizer ##")
_GOING_BACK = re.compile(r"autograd::engine::evaluate_function|backward$|## backward ##")


@dataclass(frozen=True, kw_only=True)
class HostPhases:
    """When the host was in the optimizer and when in backward."""

    optimizer: Intervals
    backward: Intervals
    data: Intervals

    def of_moments(self, moments_ns: Int64s) -> list[Phase]:
        """The phase in which something was issued at each moment."""
        updating = _within(self.optimizer, moments_ns)
        going_back = _within(self.backward, moments_ns)
        return [
            Phase.OPTIMIZER if update else Phase.BACKWARD if back else Phase.FORWARD
            for update, back in zip(updating, going_back, strict=True)
        ]


def find_host_phases(trace: Trace) -> HostPhases:
    """By operators and annotations of the host."""
    events = trace.events
    hosts = events.of(TraceCategory.OPERATOR, TraceCategory.ANNOTATION)
    return HostPhases(
        optimizer=covered(trace.events, hosts & matches(trace, _UPDATING)),
        backward=covered(trace.events, hosts & matches(trace, _GOING_BACK)),
        data=covered(trace.events, hosts & matches(trace, LOADING)),
    )


def step_phases(
    trace: Trace,
    activity: Activity,
    collectives: CollectiveCalls,
    steps: Sequence[TraceStep],
    gaps: Sequence[Gaps],
) -> tuple[dict[Phase, int], ...]:
    """Time of each phase in ns, for each step; they sum to its wall time."""
    host = find_host_phases(trace)
    updating, going_back, loading = _computation_of(trace, activity, host)
    gathering = intersect(_gathers(trace, collectives), activity.communication)
    exposed = subtract(activity.communication, activity.computation)
    begins = np.array([step.begin_ns for step in steps], np.int64)
    ends = np.array([step.end_ns for step in steps], np.int64)
    parts = {
        Phase.OPTIMIZER: updating,
        Phase.BACKWARD: subtract(going_back, updating),
        Phase.FORWARD: subtract(activity.computation, union(going_back, updating, loading)),
        Phase.DATA: subtract(loading, union(going_back, updating)),
        Phase.GATHER_WAIT: intersect(exposed, gathering),
        Phase.REDUCE_WAIT: subtract(exposed, gathering),
    }
    measured = {phase: part.measure_within(begins, ends) for phase, part in parts.items()}
    phases = []
    for place, (step, gap) in enumerate(zip(steps, gaps, strict=True)):
        spent = dict.fromkeys(Phase, 0)
        spent |= {phase: int(values[place]) for phase, values in measured.items()}
        spent[Phase.DATA] += gap.by_cause_ns[GapCause.DATA]
        spent[Phase.OTHER] = step.wall_ns - sum(spent.values())
        phases.append(spent)
    return tuple(phases)


def _computation_of(
    trace: Trace, activity: Activity, host: HostPhases
) -> tuple[Intervals, Intervals, Intervals]:
    """When the computation of optimizer, backward and data went on, wherever it ran."""
    phases = (host.optimizer, host.backward, host.data)
    if not activity.on_device:
        updating, going_back, loading = (intersect(activity.computation, item) for item in phases)
        return updating, going_back, loading
    launches = find_launches(trace)
    known = launches.call != NONE
    issued = trace.events.start_ns[launches.call[known]]
    device = launches.device[known]
    parts = []
    for phase in phases:
        chosen = np.zeros(len(trace.events), np.bool_)
        chosen[device[_within(phase, issued)]] = True
        parts.append(intersect(activity.computation, covered(trace.events, chosen)))
    updating, going_back, loading = parts
    return updating, going_back, loading


def _gathers(trace: Trace, collectives: CollectiveCalls) -> Intervals:
    gathers = np.array(
        [operation_of(facts.name) is CollectiveOp.ALL_GATHER for facts in collectives.known]
        or [False]
    )
    chosen = np.zeros(len(trace.events), np.bool_)
    chosen[collectives.positions[gathers[collectives.facts]]] = True
    return covered(trace.events, chosen)


def _within(where: Intervals, moments_ns: Int64s) -> Mask:
    if not len(where):
        return np.zeros(len(moments_ns), np.bool_)
    place = np.searchsorted(where.starts, moments_ns, side="right") - 1
    inside: Mask = (place >= 0) & (moments_ns < where.ends[np.maximum(place, 0)])
    return inside
