"""Where the wall time of a step went: computation, exposed communication, exposed memcpy, idle.

Computation counts wherever it runs; communication where nothing computes; memcpy where nothing
computes or communicates; idle is the rest. So the four sum to the wall time, to the nanosecond.
The definitions are TraceLens's `gpu_timeline`, over the union of all streams (or threads), with one
difference: filling memory counts as memcpy, as HolisticTraceAnalysis has it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from probe.analyse.trace.activity import Activity
from probe.analyse.trace.intervals import intersect, subtract, union
from probe.analyse.trace.steps import TraceStep


@dataclass(frozen=True, kw_only=True)
class Breakdown:
    """The parts of one window; the first four sum to `wall_ns`."""

    computation_ns: int
    exposed_comm_ns: int
    exposed_memcpy_ns: int
    idle_ns: int
    wall_ns: int
    comm_ns: int
    """All communication, exposed or not."""
    memcpy_ns: int
    """All copies, exposed or not."""
    overlapped_comm_ns: int
    """Communication under which something computed."""

    @property
    def overlap(self) -> float | None:
        """Share of the communication under which something computed, as HTA has it."""
        return self.overlapped_comm_ns / self.comm_ns if self.comm_ns else None


def break_down(activity: Activity, steps: Sequence[TraceStep]) -> tuple[Breakdown, ...]:
    """The breakdown of each step's window."""
    begins = np.array([step.begin_ns for step in steps], np.int64)
    ends = np.array([step.end_ns for step in steps], np.int64)
    computation, communication = activity.computation, activity.communication
    exposed_comm = subtract(communication, computation)
    exposed_memcpy = subtract(activity.memcpy, union(computation, communication))
    overlapped = intersect(communication, computation)
    measures = [
        part.measure_within(begins, ends)
        for part in (
            computation,
            exposed_comm,
            exposed_memcpy,
            communication,
            activity.memcpy,
            overlapped,
        )
    ]
    return tuple(
        _breakdown(int(wall_ns), *map(int, parts))
        for wall_ns, *parts in zip(ends - begins, *measures, strict=True)
    )


def _breakdown(
    wall_ns: int,
    computation_ns: int,
    exposed_comm_ns: int,
    exposed_memcpy_ns: int,
    comm_ns: int,
    memcpy_ns: int,
    overlapped_ns: int,
) -> Breakdown:
    return Breakdown(
        computation_ns=computation_ns,
        exposed_comm_ns=exposed_comm_ns,
        exposed_memcpy_ns=exposed_memcpy_ns,
        idle_ns=wall_ns - computation_ns - exposed_comm_ns - exposed_memcpy_ns,
        wall_ns=wall_ns,
        comm_ns=comm_ns,
        memcpy_ns=memcpy_ns,
        overlapped_comm_ns=overlapped_ns,
    )


def add_up(breakdowns: Sequence[Breakdown]) -> Breakdown:
    """The sum over several windows."""
    return Breakdown(
        computation_ns=sum(item.computation_ns for item in breakdowns),
        exposed_comm_ns=sum(item.exposed_comm_ns for item in breakdowns),
        exposed_memcpy_ns=sum(item.exposed_memcpy_ns for item in breakdowns),
        idle_ns=sum(item.idle_ns for item in breakdowns),
        wall_ns=sum(item.wall_ns for item in breakdowns),
        comm_ns=sum(item.comm_ns for item in breakdowns),
        memcpy_ns=sum(item.memcpy_ns for item in breakdowns),
        overlapped_comm_ns=sum(item.overlapped_comm_ns for item in breakdowns),
    )
