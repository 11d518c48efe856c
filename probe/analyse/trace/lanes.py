"""What a picture of a trace shows: a lane for each kind of activity, merged to what an eye can see.

Pieces nearer to each other than the resolution become one; nothing that is longer than it is lost.
"""

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from probe.analyse.trace.activity import find_activity
from probe.analyse.trace.intervals import EMPTY, Intervals, merge
from probe.analyse.trace.steps import find_steps
from probe.read.trace import Trace
from probe.schema.vocabulary import Phase, TraceCategory

PIECES_A_LANE = 400
"""The window is cut so finely; more pieces than this cannot be told apart on a screen."""


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
    pieces: Intervals
    """Merged to the resolution."""
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
    resolution_ns: int
    lanes: tuple[TraceLane, ...]
    """Those that show anything."""


def trace_lanes(trace: Trace, *, rank: int) -> TraceLanes | None:
    """None for a trace without events."""
    steps = find_steps(trace).steps
    if not steps:
        return None
    begin_ns = min(step.begin_ns for step in steps)
    end_ns = max(step.end_ns for step in steps)
    resolution = max(1, (end_ns - begin_ns) // PIECES_A_LANE)
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
            pieces = _coarse(within, resolution)
            lanes.append(TraceLane(kind=kind, phase=phase, pieces=pieces, busy_ns=within.total_ns))
    return TraceLanes(
        rank=rank,
        begin_ns=begin_ns,
        end_ns=end_ns,
        step_begins_ns=tuple(step.begin_ns for step in steps),
        step_numbers=tuple(step.number for step in steps),
        resolution_ns=resolution,
        lanes=tuple(lanes),
    )


def _annotated(trace: Trace, phase: Phase) -> Intervals:
    """When an annotation with the phase's name was open on the host."""
    events = trace.events
    named = np.array([name == phase for name in trace.names] or [False])
    chosen = events.of(TraceCategory.ANNOTATION) & named[events.name]
    return merge(events.start_ns[chosen], events.end_ns[chosen]) if chosen.any() else EMPTY


def _coarse(intervals: Intervals, resolution_ns: int) -> Intervals:
    """Gaps shorter than the resolution are closed; pieces are at least as long as it."""
    ends = np.maximum(intervals.ends, intervals.starts + resolution_ns)
    closed = merge(intervals.starts, ends + resolution_ns)
    return Intervals(closed.starts, closed.ends - resolution_ns)
