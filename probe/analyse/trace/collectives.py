"""The table of collectives: what was moved, in what sizes and how fast, as far as the trace tells.

New traces say operation, sizes and group on the NCCL kernel; in others they stand on the
`record_param_comms` operator around the launch, or only in the kernel's name. gloo annotates the
operation with the shapes of its inputs, if those were recorded. Sizes follow nccl-tests: all-reduce
the tensor, reduce-scatter the whole input, all-gather the whole output, all-to-all the input.
"""

import json
import re
from collections import defaultdict
from dataclasses import dataclass
from math import prod
from statistics import median

import numpy as np

from probe.analyse.trace.activity import (
    ActivityKind,
    collective_annotations,
    has_device,
    kernel_kinds,
)
from probe.analyse.trace.hosting import find_hosting, nearest
from probe.read.trace import NONE, Codes, CollectiveFacts, Int64s, Mask, Signature, Trace
from probe.schema.vocabulary import CollectiveOp

_BY_WORD = (
    ("reducescatter", CollectiveOp.REDUCE_SCATTER),
    ("allreduce", CollectiveOp.ALL_REDUCE),
    ("allgather", CollectiveOp.ALL_GATHER),
    ("alltoall", CollectiveOp.ALL_TO_ALL),
    ("broadcast", CollectiveOp.BROADCAST),
    ("barrier", CollectiveOp.BARRIER),
    ("sendrecv", CollectiveOp.SEND),
    ("reduce", CollectiveOp.REDUCE),
    ("gather", CollectiveOp.GATHER),
    ("scatter", CollectiveOp.SCATTER),
    ("send", CollectiveOp.SEND),
    ("recv", CollectiveOp.RECV),
)
"""Longer words first: a reduce-scatter also speaks of reducing."""
_WORDS_BY_WIDTH = {
    8: ("double", "long", "longint", "complexfloat"),
    4: ("float", "int"),
    2: ("half", "bfloat16", "short", "shortint"),
    1: ("char", "signedchar", "byte", "unsignedchar", "bool"),
}
_ELEMENT_BYTES = {word: width for width, words in _WORDS_BY_WIDTH.items() for word in words}
_BUS_FACTOR = {
    CollectiveOp.ALL_REDUCE: lambda ranks: 2 * (ranks - 1) / ranks,
    CollectiveOp.REDUCE_SCATTER: lambda ranks: (ranks - 1) / ranks,
    CollectiveOp.ALL_GATHER: lambda ranks: (ranks - 1) / ranks,
    CollectiveOp.ALL_TO_ALL: lambda ranks: (ranks - 1) / ranks,
}


@dataclass(frozen=True, kw_only=True)
class CollectiveRow:
    """All calls of one operation, in one group, of one type and size."""

    op: CollectiveOp | None
    """None where the trace does not tell."""
    name: str
    """As the backend calls it."""
    group: str
    group_size: int | None
    dtype: str
    size_bytes: int | None
    """Payload S of one call."""
    calls: int
    total_ns: int
    shortest_ns: int
    """The least wait for other ranks that one rank's trace can show."""
    median_ns: int
    longest_ns: int

    @property
    def algorithm_bandwidth(self) -> float | None:
        """S over the shortest duration, in bytes a second."""
        if self.size_bytes is None or not self.shortest_ns:
            return None
        return self.size_bytes / self.shortest_ns * 1e9

    @property
    def bus_bandwidth(self) -> float | None:
        """Algorithm bandwidth times nccl-tests' factor of the operation."""
        speed = self.algorithm_bandwidth
        if speed is None or self.op is None or not self.group_size:
            return None
        factor = _BUS_FACTOR.get(self.op)
        return speed * factor(self.group_size) if factor else speed


@dataclass(frozen=True, kw_only=True)
class CollectiveCalls:
    """Each collective of a trace: where it stands and what is known of it."""

    positions: Int64s
    facts: Codes
    """Which of `known` each call is."""
    known: tuple[CollectiveFacts, ...]


def find_collectives(trace: Trace) -> CollectiveCalls:
    """The kernels that communicate; without a device, the annotations that do."""
    events = trace.events
    if not has_device(trace):
        positions = np.flatnonzero(collective_annotations(trace))
        known, codes = _distinct([_annotated(trace, int(place)) for place in positions])
        return CollectiveCalls(positions=positions, facts=codes, known=known)
    hosting = find_hosting(trace)
    communicates = kernel_kinds(trace)[ActivityKind.COMMUNICATION]
    ours = communicates[hosting.launches.device]
    positions = hosting.launches.device[ours]
    of_place = events.collective[hosting.positions]
    by_facts = nearest(hosting, hosting.caller[ours], of_place != NONE)
    annotated = collective_annotations(trace)[hosting.positions]
    by_note = nearest(hosting, hosting.caller[ours], annotated)
    found = []
    for place, told, noted in zip(positions, by_facts, by_note, strict=True):
        code = events.collective[place]
        if code == NONE and told != NONE:
            code = of_place[told]
        if code != NONE:
            found.append(trace.collectives[code])
        else:
            source = place if noted == NONE else hosting.positions[noted]
            found.append(_named(trace.names[events.name[source]]))
    known, codes = _distinct(found)
    return CollectiveCalls(positions=positions, facts=codes, known=known)


def collective_table(trace: Trace, chosen: Mask | None = None) -> tuple[CollectiveRow, ...]:
    """Collectives by total time, the longest first; of the whole trace, or of the chosen events."""
    calls = find_collectives(trace)
    durations: dict[int, list[int]] = defaultdict(list)
    for place, code in zip(calls.positions, calls.facts, strict=True):
        if chosen is None or chosen[place]:
            durations[int(code)].append(int(trace.events.duration_ns[place]))
    rows = [
        _row(calls.known[code], lengths, trace.facts.world_size)
        for code, lengths in durations.items()
    ]
    return tuple(sorted(rows, key=lambda row: (-row.total_ns, row.name, row.size_bytes or 0)))


def operation_of(name: str) -> CollectiveOp | None:
    """The operation that a backend's name of a collective or of a kernel means."""
    plain = re.sub(r"[^a-z0-9]", "", name.split("(")[0].lower())
    return next((op for word, op in _BY_WORD if word in plain), None)


def payload_bytes(facts: CollectiveFacts) -> int | None:
    """Payload S of a collective, as nccl-tests count it."""
    taken, given = facts.in_elements, facts.out_elements
    op = operation_of(facts.name)
    elements = given if op is CollectiveOp.ALL_GATHER else taken
    if elements is None:
        elements = taken if given is None else given
    width = element_bytes(facts.dtype)
    return None if elements is None or width is None else elements * width


def element_bytes(dtype: str) -> int | None:
    """Width of an element, by the profiler's word for its type."""
    plain = dtype.lower().removeprefix("c10::").replace(" ", "")
    return 1 if plain.startswith("float8") else _ELEMENT_BYTES.get(plain)


def _row(facts: CollectiveFacts, lengths: list[int], world_size: int | None) -> CollectiveRow:
    return CollectiveRow(
        op=operation_of(facts.name),
        name=facts.name,
        group=facts.group,
        group_size=facts.group_size or (world_size if not facts.group else None),
        dtype=facts.dtype,
        size_bytes=payload_bytes(facts),
        calls=len(lengths),
        total_ns=sum(lengths),
        shortest_ns=min(lengths),
        median_ns=round(median(lengths)),
        longest_ns=max(lengths),
    )


def _annotated(trace: Trace, place: int) -> CollectiveFacts:
    """What an annotation with shapes tells: the first input, whole."""
    name = trace.names[trace.events.name[place]]
    code = trace.events.signature[place]
    if code == NONE:
        return _named(name)
    elements, dtype = _first_input(trace.signatures[code])
    op = operation_of(name)
    if elements is not None and op is CollectiveOp.ALL_GATHER:
        # The input is a rank's own part; of the output only the world's size would tell.
        ranks = trace.facts.world_size
        given = elements * ranks if ranks else None
        return _facts(name, dtype=dtype, taken=elements if given else None, given=given)
    return _facts(name, dtype=dtype, taken=elements, given=elements)


def _first_input(signature: Signature) -> tuple[int | None, str]:
    try:
        shapes, dtypes = json.loads(signature.shapes), json.loads(signature.dtypes)
        return prod(int(size) for size in shapes[0]), str(dtypes[0])
    except (ValueError, TypeError, IndexError, KeyError, OverflowError, RecursionError):
        return None, ""


def _named(name: str) -> CollectiveFacts:
    return _facts(name, dtype="", taken=None, given=None)


def _facts(name: str, *, dtype: str, taken: int | None, given: int | None) -> CollectiveFacts:
    return CollectiveFacts(
        name=name, group="", group_size=None, dtype=dtype, in_elements=taken, out_elements=given
    )


def _distinct(found: list[CollectiveFacts]) -> tuple[tuple[CollectiveFacts, ...], Codes]:
    numbers: dict[CollectiveFacts, int] = {}
    codes = [numbers.setdefault(item, len(numbers)) for item in found]
    return tuple(numbers), np.array(codes, np.int32)
