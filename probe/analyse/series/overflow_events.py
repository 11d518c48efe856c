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


@dataclass(frozen=True, kw_only=True, eq=False)
class OverflowEvents:
    """All events in order, as a table: of a run that overflows throughout there are very many."""

    rows: pa.Table
    """By step; within a step first offenders come first."""

    @property
    def total(self) -> int:
        """How many there are."""
        return int(self.rows.num_rows)

    @property
    def events(self) -> tuple[OverflowEvent, ...]:
        """The first `MOST_EVENTS` of them."""
        return tuple(OverflowEvent(**row) for row in self.rows.slice(0, MOST_EVENTS).to_pylist())

    def between(self, first: int, last: int) -> "OverflowEvents":
        """Those of some steps, both ends among them."""
        step = self.rows["step"]
        chosen = pc.and_(pc.greater_equal(step, first), pc.less_equal(step, last))
        return OverflowEvents(rows=self.rows.filter(chosen))


def overflow_events(overflow: pa.Table) -> OverflowEvents:
    """All events of a run."""
    order = pc.sort_indices(
        overflow,
        sort_keys=[("step", "ascending"), ("first", "descending"), ("rank", "ascending")],
    )
    return OverflowEvents(rows=overflow.select(list(OVERFLOW_EVENT_COLUMNS)).take(order))
