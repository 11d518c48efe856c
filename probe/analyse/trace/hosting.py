"""The host's side of a trace as trees: operators, the annotations of collectives, and launches.

Every launch has the innermost operator around it, so every kernel has an operator to answer for it;
the correlation of external ids says the same in new traces only.
"""

from dataclasses import dataclass

import numpy as np

from probe.analyse.trace.activity import collective_annotations
from probe.analyse.trace.launches import Launches, find_launches
from probe.analyse.trace.nesting import Nesting, nest
from probe.read.trace import NONE, Int64s, Mask, Trace
from probe.schema.vocabulary import TraceCategory


@dataclass(frozen=True, kw_only=True)
class Hosting:
    """Nested host events, and the launches that lie within them."""

    positions: Int64s
    """Positions of the nested events among all events."""
    nesting: Nesting
    """Its places are those in `positions`."""
    launches: Launches
    caller: Int64s
    """For each device event of `launches`, the place of what its launch lies within; or NONE."""


def find_hosting(trace: Trace) -> Hosting:
    """Nest the host's side of a trace."""
    events = trace.events
    hosts = events.of(TraceCategory.OPERATOR, TraceCategory.LAUNCH) | collective_annotations(trace)
    positions = np.flatnonzero(hosts)
    nesting = nest(events.select(positions))
    launches = find_launches(trace)
    place_of = np.full(len(events), NONE, np.int64)
    place_of[positions] = np.arange(len(positions))
    caller = np.full(len(launches.call), NONE, np.int64)
    known = launches.call != NONE
    caller[known] = nesting.parent[place_of[launches.call[known]]]
    return Hosting(positions=positions, nesting=nesting, launches=launches, caller=caller)


def nearest(hosting: Hosting, places: Int64s, wanted: Mask) -> Int64s:
    """From each place outwards, the first that is wanted; NONE where there is none."""
    found = places.copy()
    going = found != NONE
    while going.any():
        going[going] = ~wanted[found[going]]
        found[going] = hosting.nesting.parent[found[going]]
        going &= found != NONE
    return found
