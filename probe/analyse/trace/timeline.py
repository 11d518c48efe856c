"""The elements of a Chrome trace that show a run on a timeline: events, steps, counters.

Every rank has a process for what our own rows say and one for each process and device of its
traces. Times are microseconds since a common base.
"""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from probe.analyse.trace.launches import find_launches
from probe.read.trace import CATEGORIES, NONE, Trace
from probe.schema.tables import COMM_CALLS, MEMORY, STEPS, Table
from probe.schema.vocabulary import Phase, TraceCategory

PROCESSES_A_RANK = 1000
_MEMORY_COUNTERS = ("allocated_bytes", "reserved_bytes", "rss_bytes")
_COLLECTIVE_ARGUMENTS = (
    "step",
    "phase",
    "group",
    "group_size",
    "dtype",
    "logical_bytes",
    "sequence",
)
_WORDS = {
    TraceCategory.OPERATOR: "cpu_op",
    TraceCategory.ANNOTATION: "user_annotation",
    TraceCategory.MODULE: "python_function",
    TraceCategory.LAUNCH: "cuda_runtime",
    TraceCategory.KERNEL: "kernel",
    TraceCategory.COPY: "gpu_memcpy",
    TraceCategory.FILL: "gpu_memset",
    TraceCategory.DEVICE_ANNOTATION: "gpu_user_annotation",
    TraceCategory.SYNC: "cuda_sync",
    TraceCategory.OVERHEAD: "overhead",
    TraceCategory.OTHER: "other",
}
_ON_DEVICE = (
    TraceCategory.KERNEL,
    TraceCategory.COPY,
    TraceCategory.FILL,
    TraceCategory.DEVICE_ANNOTATION,
)

Element = dict[str, Any]
"""One element of `traceEvents`."""


@dataclass(frozen=True, kw_only=True)
class RankClock:
    """Turns a rank's moments into microseconds of the common timeline."""

    shift_ns: int
    """Added to a moment on the rank's monotonic clock."""

    def microseconds(self, moment_ns: int) -> float:
        """A moment on the timeline."""
        return (moment_ns + self.shift_ns) / 1000


Rows = Sequence[Mapping[str, Any]]


def run_elements(rank: int, rows: Mapping[Table, Rows], clock: RankClock) -> Iterator[Element]:
    """What the rows of a rank say: a slice a step and collective, and counters."""
    pid = rank * PROCESSES_A_RANK
    if rows[STEPS]:
        yield from _process(pid, f"rank {rank} · run")
    ends_us = {}
    for row in rows[STEPS]:
        begin_us = clock.microseconds(row["begin_ns"])
        ends_us[row["step"]] = clock.microseconds(row["begin_ns"] + row["wall_ns"])
        args = {f"{phase}_us": row[f"{phase}_ns"] / 1000 for phase in Phase}
        args |= {name: row[name] for name in ("loss_scale", "skipped", "profiled")}
        name = f"step {row['step']}" + (" (skipped)" if row["skipped"] else "")
        yield _slice(name, "step", (pid, "steps"), begin_us, row["wall_ns"], args)
        yield from _counters(pid, begin_us, row, ("loss", "loss_scale"))
    for row in rows[MEMORY]:
        if row["step"] in ends_us:
            yield from _counters(pid, ends_us[row["step"]], row, _MEMORY_COUNTERS)
    for row in rows[COMM_CALLS]:
        args = {name: row[name] for name in _COLLECTIVE_ARGUMENTS}
        begin_us = clock.microseconds(row["start_ns"])
        length_ns = row["end_ns"] - row["start_ns"]
        yield _slice(row["op"], "collective", (pid, "collectives"), begin_us, length_ns, args)


def trace_elements(trace: Trace, rank: int, base_ns: int) -> Iterator[Element]:
    """The events of one window, with an arrow from each launch to what it started."""
    events = trace.events
    on_device = set(np.unique(events.lane[events.of(*_ON_DEVICE)]).tolist())
    pids: dict[tuple[str, bool], int] = {}
    for code, lane in enumerate(trace.lanes):
        key = (lane.process, code in on_device)
        if key not in pids:
            pids[key] = rank * PROCESSES_A_RANK + 1 + min(len(pids), PROCESSES_A_RANK - 2)
            what = "device" if key[1] else "process"
            yield from _process(pids[key], f"rank {rank} · {what} {lane.process}")
    places = [
        (pids[lane.process, code in on_device], _thread(lane.thread))
        for code, lane in enumerate(trace.lanes)
    ]
    words = [_WORDS[category] for category in CATEGORIES]
    for at in range(len(events)):
        yield _slice(
            trace.names[events.name[at]],
            words[events.category[at]],
            places[events.lane[at]],
            int(events.start_ns[at] - base_ns) / 1000,
            int(events.duration_ns[at]),
            _arguments(trace, at),
        )
    launches = find_launches(trace)
    for place, call in zip(launches.device.tolist(), launches.call.tolist(), strict=True):
        if call == NONE:
            continue
        number = rank * 10**9 + call
        for phase, at in (("s", call), ("f", place)):
            pid, tid = places[events.lane[at]]
            arrow = {
                "ph": phase,
                "cat": "ac2g",
                "name": "ac2g",
                "id": number,
                "pid": pid,
                "tid": tid,
                "ts": int(events.start_ns[at] - base_ns) / 1000,
            }
            yield arrow if phase == "s" else {**arrow, "bp": "e"}


def _arguments(trace: Trace, at: int) -> Element:
    events = trace.events
    found: Element = {}
    if (identity := int(events.external_id[at])) != NONE:
        found["External id"] = identity
    if (correlation := int(events.correlation[at])) != NONE:
        found["correlation"] = correlation
    if (size := int(events.size_bytes[at])) != NONE:
        found["bytes"] = size
    if (code := int(events.signature[at])) != NONE:
        signature = trace.signatures[code]
        found["Input Dims"] = _json(signature.shapes)
        found["Input type"] = _json(signature.dtypes)
    if (code := int(events.collective[at])) != NONE:
        facts = trace.collectives[code]
        told = {
            "Collective name": facts.name,
            "Process Group Name": facts.group,
            "Group size": facts.group_size,
            "dtype": facts.dtype,
            "In msg nelems": facts.in_elements,
            "Out msg nelems": facts.out_elements,
        }
        found |= {key: value for key, value in told.items() if value is not None}
    return found


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _slice(
    name: str,
    cat: str,
    place: tuple[int, int | str],
    begin_us: float,
    length_ns: int,
    args: Element,
) -> Element:
    return {
        "ph": "X",
        "cat": cat,
        "name": name,
        "pid": place[0],
        "tid": place[1],
        "ts": begin_us,
        "dur": length_ns / 1000,
        "args": args,
    }


def _thread(text: str) -> int | str:
    """Viewers want numbers where there are numbers."""
    return int(text) if text.isdecimal() and len(text) < 19 else text


def _process(pid: int, name: str) -> Iterator[Element]:
    yield {"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {"name": name}}
    yield {
        "ph": "M",
        "name": "process_sort_index",
        "pid": pid,
        "tid": 0,
        "args": {"sort_index": pid},
    }


def _counters(
    pid: int, moment_us: float, row: Mapping[str, Any], names: Collection[str]
) -> Iterator[Element]:
    """A point of each value that is there and is a number."""
    for name in names:
        value = row[name]
        if value is not None and value - value == 0:
            yield {
                "ph": "C",
                "name": name,
                "pid": pid,
                "tid": 0,
                "ts": moment_us,
                "args": {name: value},
            }
