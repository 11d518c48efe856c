"""A profiled window as a small table: what `trace_<step>.parquet` holds of one rank.

It is no table of rows that a rank appends: it is distilled once from the profiler's JSON, to some
fortieth of that text, so that nobody has to parse it a second time. Facts of the whole trace
(rank, world, device, damage) stand in the file's metadata under `FACTS_KEY` and `PROBLEMS_KEY`.
"""

from typing import Annotated

import msgspec

from probe.schema.columns import Int, byte_count, count, elements, index, nanoseconds, text
from probe.schema.documents import DeviceFacts
from probe.schema.rows import Row
from probe.schema.tables import Table
from probe.schema.vocabulary import TraceCategory

FACTS_KEY = b"zeroprobe.trace"
PROBLEMS_KEY = b"zeroprobe.problems"


class TraceFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Facts of a whole trace; what the profiler did not write is empty or None."""

    rank: Int | None = None
    world_size: Int | None = None
    backend: str = ""
    host: str = ""
    base_ns: Int = 0
    """Added to every time: the wall clock at the trace's zero, or 0 where times are absolute."""
    schema_version: Int | None = None
    devices: list[DeviceFacts] = []
    versions: dict[str, str] = {}
    options: list[str] = []
    """What was recorded beside the events: shapes, memory, stacks."""
    left_out: dict[str, Int] = {}
    """Events that are not kept, by the profiler's word for them."""


class TraceEvent(Row, frozen=True, kw_only=True):
    """One timed event of a profiler's trace: an operator, a kernel, a copy, an annotation."""

    start_ns: Annotated[Int, nanoseconds("Begin on the wall clock, since 1970 where it is known")]
    duration_ns: Annotated[Int, nanoseconds("How long it took")]
    category: Annotated[TraceCategory, text("What the event is")]
    name: Annotated[str, text("Name of the operator, kernel or annotation")]
    process: Annotated[str, text("Process, or number of the device")] = ""
    thread: Annotated[str, text("Thread, or number of the stream on the device")] = ""
    external_id: Annotated[
        Int | None, index("The same for an operator and what it put on the device")
    ] = None
    correlation: Annotated[
        Int | None, index("The same for a launch and what it started on the device")
    ] = None
    size_bytes: Annotated[Int | None, byte_count("Bytes that a copy or a fill touched")] = None
    shapes: Annotated[str | None, text("Shapes of the inputs, as JSON, where recorded")] = None
    dtypes: Annotated[str | None, text("Types of the inputs, as JSON, where recorded")] = None
    collective: Annotated[str | None, text("Collective, as the backend calls it")] = None
    group: Annotated[str | None, text("Process group of the collective")] = None
    group_size: Annotated[Int | None, count("Ranks in the group of the collective")] = None
    dtype: Annotated[str | None, text("Type of the collective's elements")] = None
    in_elements: Annotated[Int | None, elements("Elements that the collective took in")] = None
    out_elements: Annotated[Int | None, elements("Elements that the collective gave out")] = None


TRACE = Table("trace", TraceEvent)
