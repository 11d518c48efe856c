"""What a window is bound by: the part beside computation that takes most, if it takes much.

The parts are those of the breakdown, with idle time told apart by its causes, and they sum to the
wall time. Where none of them takes a tenth of it, computation is what to make faster.
"""

from collections.abc import Sequence
from enum import StrEnum

from probe.analyse.trace.breakdown import Breakdown
from probe.analyse.trace.gaps import GapCause, Gaps

MATERIAL_SHARE = 0.1


class Bound(StrEnum):
    """What to look at first."""

    COMPUTATION = "computation"
    COMMUNICATION = "communication"
    MEMCPY = "memcpy"
    LAUNCHING = "launching"
    """Many small kernels: larger or fewer of them help."""
    HOST = "host"
    """Python, logging, another library."""
    DATA = "data"
    SYNCHRONISING = "synchronising"
    """The host waits for the device and only then gives it more to do."""
    DEPENDENCY = "dependency"
    """Streams wait for each other."""


_OF_CAUSE = {
    GapCause.LAUNCHING: Bound.LAUNCHING,
    GapCause.DELAY: Bound.LAUNCHING,
    GapCause.SYNCHRONISING: Bound.SYNCHRONISING,
    GapCause.DATA: Bound.DATA,
    GapCause.HOST: Bound.HOST,
    GapCause.DEPENDENCY: Bound.DEPENDENCY,
}


def bound_by(total: Breakdown, idle_by_cause_ns: dict[GapCause, int]) -> Bound | None:
    """None if there is no time to judge."""
    if not total.wall_ns:
        return None
    taken_ns = dict.fromkeys(Bound, 0)
    taken_ns[Bound.COMMUNICATION] = total.exposed_comm_ns
    taken_ns[Bound.MEMCPY] = total.exposed_memcpy_ns
    for cause, idle_ns in idle_by_cause_ns.items():
        taken_ns[_OF_CAUSE[cause]] += idle_ns
    most = max(taken_ns, key=lambda part: taken_ns[part])
    return most if taken_ns[most] >= MATERIAL_SHARE * total.wall_ns else Bound.COMPUTATION


def idle_by_cause(gaps: Sequence[Gaps]) -> dict[GapCause, int]:
    """The idle time of several windows; causes without any are left out."""
    sums = {cause: sum(each.by_cause_ns.get(cause, 0) for each in gaps) for cause in GapCause}
    return {cause: idle_ns for cause, idle_ns in sums.items() if idle_ns}
