"""The critical path of a step: the chain of work that made it take as long as it did.

It is walked backwards from the end of the step's window. Each piece of work began when the last
thing that it waited for was done, and the walk goes on there:

- a device event waited for the event before it on its stream, for its launch, or, if both were done
  long before, for the device event on another stream that ended last (a dependency that traces do
  not state);
- a launch waited for the host, and the host, at its last synchronising call, for the device;
- without a device: an operator waited for the operator before it, or for a collective that ended in
  between.

The pieces cover the window without gaps or overlap, so their times sum to its wall time.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

from probe.analyse.trace.activity import (
    COLLECTIVE_OPERATOR,
    collective_annotations,
    kernel_kinds,
    matches,
)
from probe.analyse.trace.gaps import SYNCHRONISING_CALL, USUAL_DELAY_NS
from probe.analyse.trace.launches import find_launches
from probe.analyse.trace.nesting import nest
from probe.analyse.trace.steps import TraceStep
from probe.read.trace import NONE, Mask, Trace
from probe.schema.vocabulary import TraceCategory


class PathKind(StrEnum):
    """What a piece of the critical path is."""

    COMPUTATION = "computation"
    COMMUNICATION = "communication"
    MEMCPY = "memcpy"
    HOST = "host"
    """The host, until it launched what came next."""
    DELAY = "delay"
    """Between the end of what was waited for and the begin of what waited."""


@dataclass(frozen=True, kw_only=True)
class PathPiece:
    """One piece of the path."""

    kind: PathKind
    name: str
    """Kernel, operator or collective; empty for host and delay."""
    begin_ns: int
    end_ns: int


@dataclass(frozen=True, kw_only=True)
class CriticalPath:
    """The path of one step, in order of time; its pieces sum to the wall time."""

    pieces: tuple[PathPiece, ...]

    @property
    def by_kind_ns(self) -> dict[PathKind, int]:
        """Time on the path by kind."""
        sums = Counter(dict.fromkeys(PathKind, 0))
        for piece in self.pieces:
            sums[piece.kind] += piece.end_ns - piece.begin_ns
        return dict(sums)

    @property
    def by_name_ns(self) -> dict[str, int]:
        """Time on the path by kernel, operator or collective, the longest first."""
        sums: Counter[str] = Counter()
        for piece in self.pieces:
            if piece.name:
                sums[piece.name] += piece.end_ns - piece.begin_ns
        return dict(sums.most_common())


@dataclass(frozen=True, kw_only=True)
class _Work:
    """Pieces of work of one timeline, in order of their ends."""

    kinds: list[PathKind]
    names: list[str]
    starts: list[int]
    ends: list[int]
    lanes: list[int]
    positions: list[int]

    def last_ended(self, moment_ns: int) -> int:
        """The piece that ended last, no later than a moment; -1 if none."""
        return bisect_right(self.ends, moment_ns) - 1


def critical_path(trace: Trace, step: TraceStep) -> CriticalPath:
    """The critical path of one step's window."""
    device = _device_work(trace, step)
    walk = _walk_device(trace, step, device) if device.ends else _walk_host(trace, step)
    pieces = []
    reached_ns = step.end_ns
    for kind, name, begin_ns in walk:
        begin_ns = max(begin_ns, step.begin_ns)
        if begin_ns < reached_ns:
            pieces.append(PathPiece(kind=kind, name=name, begin_ns=begin_ns, end_ns=reached_ns))
            reached_ns = begin_ns
        if reached_ns <= step.begin_ns:
            break
    if reached_ns > step.begin_ns:
        pieces.append(
            PathPiece(kind=PathKind.HOST, name="", begin_ns=step.begin_ns, end_ns=reached_ns)
        )
    return CriticalPath(pieces=tuple(reversed(pieces)))


_Walk = Iterator[tuple[PathKind, str, int]]
"""Kind, name and begin of each piece, backwards; each ends where the one before it began."""


def _walk_device(trace: Trace, step: TraceStep, work: _Work) -> _Walk:
    launches = find_launches(trace)
    call_of = dict(zip(launches.device.tolist(), launches.call.tolist(), strict=True))
    syncs = _synchronising_ends(trace)
    before_on_stream = _before_on_lane(work)
    call_ends = trace.events.end_ns
    place = work.last_ended(step.end_ns)
    while place >= 0:
        start_ns = work.starts[place]
        yield PathKind.DELAY, "", work.ends[place]
        yield work.kinds[place], work.names[place], start_ns
        call = call_of.get(work.positions[place], NONE)
        issued_ns = min(int(call_ends[call]), start_ns) if call != NONE else None
        before = before_on_stream[place]
        freed_ns = work.ends[before] if before >= 0 else None
        ready_ns = max((time for time in (issued_ns, freed_ns) if time is not None), default=None)
        other = work.last_ended(start_ns)
        late = ready_ns is None or start_ns - ready_ns > USUAL_DELAY_NS
        if late and other >= 0 and (ready_ns is None or work.ends[other] > ready_ns):
            place = other
            continue
        if issued_ns is None or (freed_ns is not None and freed_ns >= issued_ns):
            place = before
            continue
        yield PathKind.DELAY, "", issued_ns
        waited = _device_waited_for(work, syncs, issued_ns)
        if waited is None:
            return
        place, returned_ns = waited
        yield PathKind.HOST, "", returned_ns


def _device_waited_for(
    work: _Work, syncs: tuple[list[int], list[int]], moment_ns: int
) -> tuple[int, int] | None:
    """The device event that the host last waited for before a moment, and when it went on."""
    ends, starts = syncs
    number = bisect_right(ends, moment_ns) - 1
    while number >= 0:
        place = work.last_ended(ends[number])
        if place >= 0 and work.ends[place] > starts[number]:
            return place, ends[number]
        number -= 1
    return None


def _walk_host(trace: Trace, step: TraceStep) -> _Walk:
    work = _host_work(trace, step)
    collectives = _collective_work(trace, step)
    moment_ns = step.end_ns
    while True:
        place = work.last_ended(moment_ns)
        done_ns = work.ends[place] if place >= 0 else step.begin_ns
        other = collectives.last_ended(moment_ns)
        if other >= 0 and collectives.ends[other] > done_ns:
            yield PathKind.HOST, "", collectives.ends[other]
            yield PathKind.COMMUNICATION, collectives.names[other], collectives.starts[other]
            moment_ns = collectives.starts[other]
        elif place >= 0:
            yield PathKind.HOST, "", done_ns
            yield work.kinds[place], work.names[place], work.starts[place]
            moment_ns = work.starts[place]
        else:
            return


def _device_work(trace: Trace, step: TraceStep) -> _Work:
    inside = _inside(trace, step)
    pieces = [
        _piece(trace, PathKind(kind.value), position)
        for kind, mask in kernel_kinds(trace).items()
        for position in np.flatnonzero(mask & inside).tolist()
    ]
    return _work(trace, pieces, step)


def _host_work(trace: Trace, step: TraceStep) -> _Work:
    """Operators that lie in no other, and apart from them the calls of collectives inside."""
    operators = np.flatnonzero(trace.events.of(TraceCategory.OPERATOR))
    parents = nest(trace.events.select(operators)).parent
    of_collectives = matches(trace, COLLECTIVE_OPERATOR)
    inside = _inside(trace, step)
    calls: dict[int, list[int]] = {}
    for place in np.flatnonzero(of_collectives[operators] & inside[operators]):
        outermost = place
        while parents[outermost] != NONE:
            outermost = parents[outermost]
        calls.setdefault(int(operators[outermost]), []).append(int(operators[place]))
    pieces: list[_Piece] = []
    for position in operators[(parents == NONE) & inside[operators]].tolist():
        whole = _piece(trace, PathKind.COMPUTATION, position)
        begin_ns = whole.begin_ns
        for call in sorted(calls.get(position, []), key=lambda at: trace.events.start_ns[at]):
            part = _piece(trace, PathKind.COMMUNICATION, call)
            if part.begin_ns >= begin_ns:
                pieces += [replace(whole, begin_ns=begin_ns, end_ns=part.begin_ns), part]
                begin_ns = part.end_ns
        pieces.append(replace(whole, begin_ns=begin_ns))
    return _work(trace, pieces, step)


def _collective_work(trace: Trace, step: TraceStep) -> _Work:
    positions = np.flatnonzero(collective_annotations(trace) & _inside(trace, step))
    pieces = [_piece(trace, PathKind.COMMUNICATION, place) for place in positions.tolist()]
    return _work(trace, pieces, step)


def _inside(trace: Trace, step: TraceStep) -> Mask:
    events = trace.events
    return (events.start_ns < step.end_ns) & (events.end_ns > step.begin_ns)


@dataclass(frozen=True, kw_only=True)
class _Piece:
    """One piece of work before it is put in order."""

    kind: PathKind
    position: int
    begin_ns: int
    end_ns: int


def _piece(trace: Trace, kind: PathKind, position: int) -> _Piece:
    begin_ns = int(trace.events.start_ns[position])
    end_ns = begin_ns + int(trace.events.duration_ns[position])
    return _Piece(kind=kind, position=position, begin_ns=begin_ns, end_ns=end_ns)


def _work(trace: Trace, pieces: list[_Piece], step: TraceStep) -> _Work:
    """Pieces in order of their ends; what has no length cannot hold anything up."""
    ended = [(min(piece.end_ns, step.end_ns), piece) for piece in pieces]
    ended = sorted((item for item in ended if item[0] > item[1].begin_ns), key=lambda item: item[0])
    ordered = [piece for _, piece in ended]
    positions = [piece.position for piece in ordered]
    return _Work(
        kinds=[piece.kind for piece in ordered],
        names=[trace.names[trace.events.name[position]] for position in positions],
        starts=[piece.begin_ns for piece in ordered],
        ends=[end_ns for end_ns, _ in ended],
        lanes=trace.events.lane[positions].tolist() if positions else [],
        positions=positions,
    )


def _before_on_lane(work: _Work) -> list[int]:
    """For each piece, the one that ended before it on its lane; -1 if none."""
    last: dict[int, int] = {}
    before = []
    for place, lane in enumerate(work.lanes):
        before.append(last.get(lane, -1))
        last[lane] = place
    return before


def _synchronising_ends(trace: Trace) -> tuple[list[int], list[int]]:
    """Ends and starts of the calls in which the host waits for the device, by their end."""
    events = trace.events
    calls: Mask = events.of(TraceCategory.LAUNCH) & matches(trace, SYNCHRONISING_CALL)
    positions = np.flatnonzero(calls)
    positions = positions[np.argsort(events.end_ns[positions], kind="stable")]
    return events.end_ns[positions].tolist(), events.start_ns[positions].tolist()
