"""Every tensor that went wrong, one by one: what a table of overflow events lists."""

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from probe.analyse.precision.overflows import ORIGIN_COLUMNS

OVERFLOW_EVENT_COLUMNS = (*ORIGIN_COLUMNS, "nonfinite_elements", "tensor_elements", "loss_scale")
"""Columns of the overflow table that `overflow_events` reads."""
MOST_EVENTS = 500


@dataclass(frozen=True, kw_only=True)
class OverflowEvent:
    """One tensor of one rank in one step."""

    step: int
    rank: int
    first: bool
    """The first offender of the step on its rank."""
    role: str
    kind: str
    parameter: str | None
    module: str | None
    micro_batch: int | None
    nonfinite_elements: int | None
    tensor_elements: int | None
    loss_scale: float | None


@dataclass(frozen=True, kw_only=True)
class OverflowEvents:
    """The first of them, and how many there are."""

    events: tuple[OverflowEvent, ...]
    """By step; within a step first offenders come first."""
    total: int


def overflow_events(overflow: pa.Table) -> OverflowEvents:
    """All events, or the first `MOST_EVENTS` of them."""
    order = pc.sort_indices(
        overflow,
        sort_keys=[("step", "ascending"), ("first", "descending"), ("rank", "ascending")],
    )
    rows = overflow.select(list(OVERFLOW_EVENT_COLUMNS)).take(order[:MOST_EVENTS]).to_pylist()
    return OverflowEvents(
        events=tuple(OverflowEvent(**row) for row in rows), total=overflow.num_rows
    )
