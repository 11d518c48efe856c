"""Where each step of a trace begins and ends.

On the host a step is its `ProfilerStep#N` annotation; without one, the phases that our engine
annotates, from the first after an optimizer phase to the end of the next; without any, the whole
trace is one step. On a device the host runs ahead, by whole steps at times, so there a step runs
from the first device activity that it launched to the first that the next step launched, and the
last one to the end of what it launched. Steps with a device therefore lie without gaps.
"""

import re
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from probe.analyse.trace.launches import Launches, find_launches
from probe.read.trace import NONE, Int64s, Trace
from probe.schema.vocabulary import Phase, TraceCategory

_STEP_NAME = re.compile(r"ProfilerStep\s*#\s*(\d{1,12})(?!\d)")


class StepMark(StrEnum):
    """What told the steps apart."""

    PROFILER_STEP = "profiler_step"
    PHASES = "phases"
    WHOLE_TRACE = "whole_trace"


@dataclass(frozen=True, kw_only=True)
class TraceStep:
    """One step: its window, on the device's timeline where there is one, and its host span."""

    number: int
    begin_ns: int
    end_ns: int
    host_begin_ns: int
    host_end_ns: int

    @property
    def wall_ns(self) -> int:
        """Length of the window."""
        return self.end_ns - self.begin_ns


@dataclass(frozen=True, kw_only=True)
class TraceSteps:
    """The steps of a trace, in order."""

    mark: StepMark
    steps: tuple[TraceStep, ...]

    def of_moments(self, moments_ns: Int64s) -> Int64s:
        """Position of the step in whose host span each moment lies; NONE outside of all."""
        begins = np.array([step.host_begin_ns for step in self.steps], np.int64)
        ends = np.array([step.host_end_ns for step in self.steps], np.int64)
        place = np.searchsorted(begins, moments_ns, side="right") - 1
        inside = (place >= 0) & (moments_ns < ends[np.maximum(place, 0)])
        return np.where(inside, place, NONE)

    def of_launches(self, trace: Trace, launches: Launches) -> Int64s:
        """Position of the step that launched each device event; NONE where that is unknown."""
        known = launches.call != NONE
        places = np.full(len(launches.call), NONE, np.int64)
        places[known] = self.of_moments(trace.events.start_ns[launches.call[known]])
        return places


def find_steps(trace: Trace) -> TraceSteps:
    """The steps of a trace; none in a trace without events."""
    events = trace.events
    if not len(events):
        return TraceSteps(mark=StepMark.WHOLE_TRACE, steps=())
    for mark, spans in (
        (StepMark.PROFILER_STEP, _profiler_steps(trace)),
        (StepMark.PHASES, _phase_steps(trace)),
    ):
        if spans:
            return _on_device(trace, TraceSteps(mark=mark, steps=tuple(map(_on_host, spans))))
    begin_ns, end_ns = int(events.start_ns.min()), int(events.end_ns.max())
    whole = _on_host((0, begin_ns, max(end_ns, begin_ns + 1)))
    return TraceSteps(mark=StepMark.WHOLE_TRACE, steps=(whole,))


def _on_host(span: tuple[int, int, int]) -> TraceStep:
    number, begin_ns, end_ns = span
    return TraceStep(
        number=number,
        begin_ns=begin_ns,
        end_ns=end_ns,
        host_begin_ns=begin_ns,
        host_end_ns=end_ns,
    )


def _profiler_steps(trace: Trace) -> list[tuple[int, int, int]]:
    events = trace.events
    numbers = [_step_number(name) for name in trace.names]
    is_step = np.array([number is not None for number in numbers] or [False])
    found = np.flatnonzero(events.of(TraceCategory.ANNOTATION) & is_step[events.name])
    spans: dict[int, tuple[int, int, int]] = {}
    for place in found[np.argsort(events.start_ns[found], kind="stable")]:
        number = numbers[events.name[place]]
        begin_ns, duration_ns = int(events.start_ns[place]), int(events.duration_ns[place])
        if number is not None and duration_ns:
            spans.setdefault(number, (number, begin_ns, begin_ns + duration_ns))
    return sorted(spans.values(), key=lambda span: span[1])


def _step_number(name: str) -> int | None:
    match = _STEP_NAME.match(name)
    return int(match[1]) if match else None


def _phase_steps(trace: Trace) -> list[tuple[int, int, int]]:
    """Steps by the annotations of our phases: each ends with its optimizer phase."""
    events = trace.events
    words = set(Phase)
    is_phase = np.array([name in words for name in trace.names] or [False])
    is_update = np.array([name == Phase.OPTIMIZER for name in trace.names] or [False])
    annotated = events.of(TraceCategory.ANNOTATION)
    phases = np.flatnonzero(annotated & is_phase[events.name])
    updates = np.flatnonzero(annotated & is_update[events.name])
    starts = np.sort(events.start_ns[phases])
    ends = np.sort(events.end_ns[updates])
    spans: list[tuple[int, int, int]] = []
    reached_ns = np.iinfo(np.int64).min
    for end_ns in ends:
        first = np.searchsorted(starts, reached_ns)
        if first == len(starts) or starts[first] >= end_ns:
            continue  # an optimizer phase within another
        spans.append((len(spans), int(starts[first]), int(end_ns)))
        reached_ns = end_ns
    return spans


def _on_device(trace: Trace, host: TraceSteps) -> TraceSteps:
    """The same steps with their windows on the device's timeline, where there is one."""
    launches = find_launches(trace)
    places = host.of_launches(trace, launches)
    if not (places != NONE).any():
        return host
    starts = trace.events.start_ns[launches.device]
    ends = trace.events.end_ns[launches.device]
    launching = [place for place in range(len(host.steps)) if (places == place).any()]
    begins_ns = [int(starts[places == place].min()) for place in launching]
    begins_ns = list(map(int, np.maximum.accumulate(begins_ns)))
    last_end_ns = max(int(ends[places == launching[-1]].max()), begins_ns[-1] + 1)
    windows = dict(
        zip(launching, zip(begins_ns, [*begins_ns[1:], last_end_ns], strict=True), strict=True)
    )
    steps = [
        TraceStep(
            number=step.number,
            begin_ns=windows[place][0],
            end_ns=windows[place][1],
            host_begin_ns=step.host_begin_ns,
            host_end_ns=step.host_end_ns,
        )
        for place, step in enumerate(host.steps)
        if place in windows
    ]
    return TraceSteps(mark=host.mark, steps=tuple(steps))
