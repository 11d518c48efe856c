"""A trace in memory: one array a column, one element an event, texts as codes into lists.

Both sources give this same form: the profiler's JSON (`trace_file`) and the distilled Parquet
(`trace_table`). Times are absolute where the profiler knew the wall clock.
"""

from dataclasses import dataclass, fields, replace

import numpy as np
import numpy.typing as npt

from probe.read.problem import Problem
from probe.schema.trace import TraceFacts
from probe.schema.vocabulary import TraceCategory

Int64s = npt.NDArray[np.int64]
Codes = npt.NDArray[np.int32]
Mask = npt.NDArray[np.bool_]

CATEGORIES = tuple(TraceCategory)
CODE_OF = {category: code for code, category in enumerate(CATEGORIES)}
NONE = -1
"""In an array of codes, identities or sizes: there is none."""


@dataclass(frozen=True, kw_only=True)
class Lane:
    """What events follow each other on: a thread of a process, or a stream of a device."""

    process: str
    thread: str


@dataclass(frozen=True, kw_only=True)
class Signature:
    """Shapes and types of an operator's inputs, as the JSON that the profiler wrote."""

    shapes: str
    dtypes: str


@dataclass(frozen=True, kw_only=True)
class CollectiveFacts:
    """What a trace says of a collective."""

    name: str
    group: str
    group_size: int | None
    dtype: str
    in_elements: int | None
    out_elements: int | None


@dataclass(frozen=True, kw_only=True)
class Events:
    """The columns; all arrays have one length."""

    start_ns: Int64s
    duration_ns: Int64s
    category: npt.NDArray[np.uint8]
    """Code into CATEGORIES."""
    name: Codes
    lane: Codes
    external_id: Int64s
    correlation: Int64s
    size_bytes: Int64s
    signature: Codes
    collective: Codes

    def __len__(self) -> int:
        return len(self.start_ns)

    @property
    def end_ns(self) -> Int64s:
        """End of each event."""
        return self.start_ns + self.duration_ns

    def of(self, *categories: TraceCategory) -> Mask:
        """Which events are of these categories."""
        wanted = np.zeros(256, np.bool_)
        wanted[[CODE_OF[category] for category in categories]] = True
        return wanted[self.category]

    def select(self, chosen: Mask | Int64s) -> "Events":
        """The chosen events, by mask or by position."""
        arrays = {item.name: getattr(self, item.name)[chosen] for item in fields(self)}
        return replace(self, **arrays)


@dataclass(frozen=True, kw_only=True)
class Trace:
    """Everything kept of one rank's trace, and what was wrong with it."""

    facts: TraceFacts
    events: Events
    names: tuple[str, ...]
    lanes: tuple[Lane, ...]
    signatures: tuple[Signature, ...]
    collectives: tuple[CollectiveFacts, ...]
    problems: tuple[Problem, ...]
