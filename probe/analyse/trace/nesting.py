"""Which event of a thread lies within which other: depth, parent and own time."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from probe.read.trace import NONE, Events, Int64s


@dataclass(frozen=True, kw_only=True)
class Nesting:
    """The trees of some events; positions are those in the events given."""

    depth: npt.NDArray[np.int64]
    parent: npt.NDArray[np.int64]
    """Position of the innermost event around; NONE at the top."""

    def own_ns(self, duration_ns: Int64s, counted: npt.NDArray[np.bool_]) -> Int64s:
        """Duration less that of the children that count; rounding never makes it negative."""
        inner = counted & (self.parent != NONE)
        children = np.zeros(len(duration_ns), np.int64)
        np.add.at(children, self.parent[inner], duration_ns[inner])
        own: Int64s = np.maximum(duration_ns - children, 0)
        return own


def nest(events: Events) -> Nesting:
    """Nest events lane by lane.

    An event lies within those that began no later and have not ended. Where a profiler's rounding
    lets a child end after its parent, it still is a child.
    """
    depth = np.zeros(len(events), np.int64)
    parent = np.full(len(events), NONE, np.int64)
    order = np.lexsort((-events.duration_ns, events.start_ns, events.lane))
    lanes = events.lane[order]
    edges = np.flatnonzero(np.diff(lanes)) + 1
    for places in np.split(order, edges):
        _nest_lane(places, events, depth, parent)
    return Nesting(depth=depth, parent=parent)


def _nest_lane(
    places: Int64s,
    events: Events,
    depth: npt.NDArray[np.int64],
    parent: npt.NDArray[np.int64],
) -> None:
    """Fill in one lane, whose events are given in order of start, the longer first."""
    starts = events.start_ns[places]
    # One ns more for events without length: they are open at their own start.
    ends = np.sort(starts + np.maximum(events.duration_ns[places], 1))
    open_before = np.arange(len(places)) - np.searchsorted(ends, starts, side="right")
    depth[places] = open_before
    outer = np.flatnonzero(open_before == 0)
    level = 1
    while len(inner := np.flatnonzero(open_before == level)):
        # The last event one level up that came before.
        found = np.searchsorted(outer, inner) - 1
        parent[places[inner]] = places[outer[found]]
        outer = inner
        level += 1
