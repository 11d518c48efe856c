"""Which rank holds the others up, told from chance and from ranks that merely wait.

All ranks of a synchronous job take equally long for a step; what differs is what they do meanwhile.
A rank is held against the median of the others *in the same step*, since what disturbs a machine
disturbs them together. It stands out if the median of these differences is more than

    10 % of the others' time, 2 % of the step and 0.1 ms, and four times its standard error.

Below 0.1 ms lies what waking a thread or writing a line costs: it makes one rank of a tiny model
the slower one and is nobody's fault. Four errors, because the slowest of many ranks is looked at:
among a thousand that are alike, one lies three errors off.

    slow data       its own time stands out, and most of it is waiting for the next batch
    slow compute    its own time stands out, and the others wait in collectives meanwhile
    slow link       nobody's own time stands out, but its collectives take longest of three or more

A link has two ends, so of two ranks neither has the slow one. And who is done early waits in
collectives until the others come: what a rank is longer there counts as a slow link only beyond
what it is shorter at work.
"""

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from probe.analyse.statistics.dependence import Floats
from probe.analyse.statistics.standard_error import error_of_median
from probe.analyse.steps.steps import Integers

LEAST_EXCESS = 0.10
LEAST_STEP_SHARE = 0.02
LEAST_EXCESS_NS = 100_000
LEAST_ERRORS = 4.0
LEAST_STEPS = 5
LEAST_LINKED_RANKS = 3


class Cause(StrEnum):
    """Why a rank holds the others up."""

    SLOW_DATA = "slow data"
    SLOW_COMPUTE = "slow compute"
    SLOW_LINK = "slow link"


@dataclass(frozen=True, kw_only=True)
class Straggler:
    """The rank that the others wait for."""

    rank: int
    cause: Cause
    excess_ns: float
    """Time a step beyond the median of the others."""
    step_share: float
    """The same over the median step."""


@dataclass(frozen=True, kw_only=True, eq=False)
class RankTimes:
    """What the ranks did in the counted steps: steps down, ranks across, nan where nothing was
    recorded."""

    rank: Integers
    own_ns: Floats
    """data + forward + backward: the phases in which a rank waits for nobody."""
    data_ns: Floats
    worked_ns: Floats
    """The step without what compute stood still for collectives."""
    busy_ns: Floats
    """In collectives."""


def find_straggler(times: RankTimes, step_ns: float) -> Straggler | None:
    """None if nobody stands out, or in fewer steps than tell anything."""
    if len(times.own_ns) < LEAST_STEPS or not step_ns:
        return None
    if outlier := _standing_out(times.own_ns, step_ns):
        at, excess_ns = outlier
        waiting_ns = float(np.median(_beyond_others(times.data_ns, at)))
        cause = Cause.SLOW_DATA if waiting_ns > excess_ns / 2 else Cause.SLOW_COMPUTE
    elif len(times.rank) >= LEAST_LINKED_RANKS and (outlier := _slow_link(times, step_ns)):
        at, excess_ns = outlier
        cause = Cause.SLOW_LINK
    else:
        return None
    return Straggler(
        rank=int(times.rank[at]),
        cause=cause,
        excess_ns=excess_ns,
        step_share=excess_ns / step_ns,
    )


def _slow_link(times: RankTimes, step_ns: float) -> tuple[int, float] | None:
    outlier = _standing_out(times.busy_ns, step_ns)
    if outlier is None:
        return None
    at, excess_ns = outlier
    waited_ns = max(0.0, -float(np.median(_beyond_others(times.worked_ns, at))))
    return outlier if waited_ns < excess_ns / 2 else None


def _standing_out(times: Floats, step_ns: float) -> tuple[int, float] | None:
    """The place of the rank that takes longest and by how much, if that is no chance."""
    medians = np.nanmedian(times, axis=0)
    at = int(medians.argmax())
    differences = _beyond_others(times, at)
    if len(differences) < LEAST_STEPS:
        return None
    excess_ns = float(np.median(differences))
    usual_ns = float(medians[at]) - excess_ns
    stands_out = (
        excess_ns > LEAST_EXCESS * usual_ns
        and excess_ns > LEAST_STEP_SHARE * step_ns
        and excess_ns > LEAST_EXCESS_NS
        and excess_ns > LEAST_ERRORS * error_of_median(differences)
    )
    return (at, excess_ns) if stands_out else None


def _beyond_others(times: Floats, at: int) -> Floats:
    """One rank's time over the median of the others, in each step that it and another recorded:
    a median in which it took part itself would hide half of two."""
    others = np.delete(times, at, axis=1)
    both = ~np.isnan(times[:, at]) & ~np.isnan(others).all(axis=1)
    beyond: Floats = times[both, at] - np.nanmedian(others[both], axis=1)
    return beyond
