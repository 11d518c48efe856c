"""Why nothing ran: the idle time of each step, by what held it up.

A gap is a time in which the device neither computes nor communicates nor copies; it ends with the
next device event. Until the end of that event's launching call, the host is to blame: within a
synchronising call it waited itself, within an operator or a call it was busy launching
(launch-bound: larger or fewer kernels help), outside of all it was in Python, data or elsewhere
(host-bound). From the end of the launching call on, the device is: a short rest is the usual delay
between a launch and its kernel, a longer one a wait for another stream.

Without a device a gap is a time in which no operator computes: exposed communication is not idle,
so what remains is a wait for data where a DataLoader is annotated, or time outside operators.
"""

import re
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from probe.analyse.trace.activity import Activity, covered, matches
from probe.analyse.trace.intervals import (
    EMPTY,
    Intervals,
    intersect,
    merge,
    subtract,
    window,
)
from probe.analyse.trace.launches import Launches, find_launches
from probe.analyse.trace.steps import TraceStep
from probe.read.trace import NONE, Int64s, Trace
from probe.schema.vocabulary import TraceCategory

USUAL_DELAY_NS = 20_000
"""Longest time between the end of a launch and its kernel that needs no other explanation."""
SYNCHRONISING_CALL = re.compile(
    r"(cuda|hip|cu)\w*Synchronize|hipMemcpyWithStream|cudaMemcpy$|cudaFree$"
)
LOADING = re.compile(r"enumerate\(DataLoader\)|data$")


class GapCause(StrEnum):
    """What an idle device, or an idle host without a device, waited for."""

    LAUNCHING = "launching"
    """The host was inside operators and launches: launch-bound."""
    SYNCHRONISING = "synchronising"
    """The host stood in a call that waits for the device."""
    DATA = "data"
    """The host waited for the next batch."""
    HOST = "host"
    """The host was outside of operators: Python, logging, another library."""
    DELAY = "delay"
    """Launched, and the usual delay until it began."""
    DEPENDENCY = "dependency"
    """Launched long before, and waiting for another stream or a transfer."""


@dataclass(frozen=True, kw_only=True)
class Gaps:
    """The idle time of one step; the causes sum to `idle_ns`."""

    idle_ns: int
    by_cause_ns: dict[GapCause, int]
    count: int
    longest_ns: int
    median_ns: int

    @property
    def main_cause(self) -> GapCause | None:
        """The cause of most of the idle time; None if there is none."""
        if not self.idle_ns:
            return None
        return max(self.by_cause_ns, key=lambda cause: self.by_cause_ns[cause])


def find_gaps(trace: Trace, activity: Activity, steps: tuple[TraceStep, ...]) -> tuple[Gaps, ...]:
    """The gaps of each step's window."""
    host = _HostState.of(trace)
    launches = find_launches(trace) if activity.on_device else None
    return tuple(_gaps_of(trace, activity.busy, step, host, launches) for step in steps)


@dataclass(frozen=True, kw_only=True)
class _HostState:
    """When any thread of the host was where."""

    synchronising: Intervals
    busy: Intervals
    loading: Intervals

    @classmethod
    def of(cls, trace: Trace) -> "_HostState":
        """By the events of the host; several threads count together."""
        events = trace.events
        calls = events.of(TraceCategory.LAUNCH, TraceCategory.SYNC)
        waits = calls & matches(trace, SYNCHRONISING_CALL)
        notes = events.of(TraceCategory.ANNOTATION) & matches(trace, LOADING)
        return cls(
            synchronising=covered(trace.events, waits),
            busy=covered(trace.events, (events.of(TraceCategory.OPERATOR) | calls) & ~waits),
            loading=covered(trace.events, notes),
        )


def _gaps_of(
    trace: Trace,
    busy: Intervals,
    step: TraceStep,
    host: _HostState,
    launches: Launches | None,
) -> Gaps:
    idle = subtract(window(step.begin_ns, step.end_ns), busy)
    host_part, waiting = idle, EMPTY
    if launches is not None and len(idle):
        issued = _issued_ns(trace, launches, idle)
        turn = np.clip(issued, idle.starts, idle.ends)
        host_part = merge(idle.starts, turn)
        waiting = merge(turn, idle.ends)
    causes: dict[GapCause, int] = {}
    left = host_part
    for cause, state in (
        (GapCause.SYNCHRONISING, host.synchronising),
        (GapCause.DATA, host.loading),
        (GapCause.LAUNCHING, host.busy),
    ):
        causes[cause] = intersect(left, state).total_ns
        left = subtract(left, state)
    causes[GapCause.HOST] = left.total_ns
    lengths = waiting.ends - waiting.starts
    usual = lengths <= USUAL_DELAY_NS
    causes[GapCause.DELAY] = int(lengths[usual].sum())
    causes[GapCause.DEPENDENCY] = int(lengths[~usual].sum())
    whole = idle.ends - idle.starts
    return Gaps(
        idle_ns=idle.total_ns,
        by_cause_ns=causes,
        count=len(idle),
        longest_ns=int(whole.max()) if len(whole) else 0,
        median_ns=int(np.median(whole)) if len(whole) else 0,
    )


def _issued_ns(trace: Trace, launches: Launches, idle: Intervals) -> Int64s:
    """When the launch of the device event that ends each gap had returned.

    A gap at the end of a step ends with the next step's first event; after the last event of all,
    nothing was launched any more and the whole gap is the host's.
    """
    starts = trace.events.start_ns[launches.device]
    following = np.searchsorted(starts, idle.ends)
    beyond = following == len(starts)
    call = launches.call[np.where(beyond, 0, following)]
    issued = np.where(call == NONE, idle.starts, trace.events.end_ns[call])
    return np.where(beyond, idle.ends, issued)
