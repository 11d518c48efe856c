"""What a picture of a trace shows: a lane for each kind of activity, as finely as an eye can see.

The window is cut into slots. How much of a slot a lane was busy is rounded up to quarters, so that
a lone short kernel is seen and many short ones with gaps do not look like one long one; neighbours
alike become one piece.
"""

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from probe.analyse.trace.activity import find_activity
from probe.analyse.trace.intervals import EMPTY, Intervals, merge
from probe.analyse.trace.steps import find_steps
from probe.read.trace import Int64s, Trace
from probe.schema.vocabulary import Phase, TraceCategory

SLOTS = 400
"""More pieces than this cannot be told apart on a screen."""
LEVELS = 4


class LaneKind(StrEnum):
    """What a lane shows."""

    PHASES = "phases"
    COMPUTATION = "computation"
    COMMUNICATION = "communication"
    MEMCPY = "memcpy"


@dataclass(frozen=True, kw_only=True)
class TraceLane:
    """One row of pieces, from the begin of the first step of the window."""

    kind: LaneKind
    phase: Phase | None
    """Of a lane of phases: which."""
    begins_ns: Int64s
    ends_ns: Int64s
    busy_share: npt.NDArray[np.float64]
    """Of each piece, in quarters: how much of it was busy."""
    busy_ns: int
    """What the lane really covers."""


@dataclass(frozen=True, kw_only=True)
class TraceLanes:
    """The lanes of one rank's window."""

    rank: int
    begin_ns: int
    end_ns: int
    step_begins_ns: tuple[int, ...]
    step_numbers: tuple[int, ...]
    slot_ns: int
    lanes: tuple[TraceLane, ...]
    """Those that show anything."""


def trace_lanes(trace: Trace, *, rank: int) -> TraceLanes | None:
    """None for a trace without events."""
    steps = find_steps(trace).steps
    if not steps:
        return None
    begin_ns = min(step.begin_ns for step in steps)
    end_ns = max(step.end_ns for step in steps)
    slot_ns = max(1, -(-(end_ns - begin_ns) // SLOTS))
    edges = np.minimum(begin_ns + slot_ns * np.arange(SLOTS + 1), end_ns)
    activity = find_activity(trace)
    found: list[tuple[LaneKind, Phase | None, Intervals]] = [
        (LaneKind.PHASES, phase, _annotated(trace, phase)) for phase in Phase
    ]
    found += [
        (LaneKind.COMPUTATION, None, activity.computation),
        (LaneKind.COMMUNICATION, None, activity.communication),
        (LaneKind.MEMCPY, None, activity.memcpy),
    ]
    lanes = []
    for kind, phase, intervals in found:
        within = intervals.clip(begin_ns, end_ns)
        if len(within):
            begins, ends, share = _pieces(within, edges)
            lanes.append(
                TraceLane(
                    kind=kind,
                    phase=phase,
                    begins_ns=begins,
                    ends_ns=ends,
                    busy_share=share,
                    busy_ns=within.total_ns,
                )
            )
    return TraceLanes(
        rank=rank,
        begin_ns=begin_ns,
        end_ns=end_ns,
        step_begins_ns=tuple(step.begin_ns for step in steps),
        step_numbers=tuple(step.number for step in steps),
        slot_ns=slot_ns,
        lanes=tuple(lanes),
    )


def _annotated(trace: Trace, phase: Phase) -> Intervals:
    """When an annotation with the phase's name was open on the host."""
    events = trace.events
    named = np.array([name == phase for name in trace.names] or [False])
    chosen = events.of(TraceCategory.ANNOTATION) & named[events.name]
    return merge(events.start_ns[chosen], events.end_ns[chosen]) if chosen.any() else EMPTY


def _pieces(intervals: Intervals, edges: Int64s) -> tuple[Int64s, Int64s, npt.NDArray[np.float64]]:
    """Slots that are busy to the same quarter, put together; idle ones are left out."""
    lengths = np.diff(edges)
    busy = intervals.measure_within(edges[:-1], edges[1:])
    level = np.ceil(LEVELS * busy / np.maximum(1, lengths)).astype(np.int64)
    first = np.flatnonzero(np.diff(level, prepend=-1))
    last = np.r_[first[1:], len(level)]
    shown = level[first] > 0
    return edges[first][shown], edges[last][shown], level[first][shown] / LEVELS
