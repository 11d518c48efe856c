"""The few numbers that a run is told by: how far, how fast, how large, how healthy.

All are taken over rows of the tables as the reader gives them, sorted by rank and step. A step
that was repeated after a restart counts by its last row. Times and traffic are those of the steps
that count, as everywhere (see `steps`).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from probe.analyse.steps.steps import COUNTING_COLUMNS, Integers, counted_steps, last_attempts
from probe.schema.vocabulary import EventKind, MemoryCategory

STEP_COLUMNS = (*COUNTING_COLUMNS, "loss", "loss_scale_next")
"""Columns of the steps table that a headline is made of."""
_LEDGER = tuple(f"device_{category}_bytes" for category in MemoryCategory)
MEMORY_COLUMNS = ("rank", "peak_allocated_bytes", "peak_rss_bytes", *_LEDGER)
"""Columns of the memory table that it is made of."""
EVENT_COLUMNS = ("rank", "kind", "size_bytes")
"""Columns of the events table that it is made of."""
COMM_COLUMNS = ("rank", "step", "wire_bytes")
"""Columns of the comm table that it is made of."""


@dataclass(frozen=True, kw_only=True)
class Peak:
    """The largest value that any rank reached, and the first rank that did."""

    rank: int
    peak_bytes: int


@dataclass(frozen=True, kw_only=True)
class Headline:
    """What `probe show` says of a run in numbers; None where the run does not tell."""

    recorded_steps: int
    """Distinct steps that any rank recorded, skipped ones included."""
    last_step: int | None
    skipped_steps: int
    """Steps that any rank skipped."""
    profiled_steps: int
    """Steps that any rank profiled."""
    timed_steps: int
    """Steps that count: those that the medians are taken over."""
    median_wall_ns: float | None
    """Median over these steps of the wall time of the slowest rank in each."""
    last_loss: float | None
    """Mean over the ranks in the last step that has a loss; nan if it was on any rank."""
    last_loss_step: int | None
    loss_scale: float | None
    """The scale after the last step that states one, hence the scale now."""
    peak_device: Peak | None
    """Most that the device allocator held within a step."""
    peak_ledger: Peak | None
    """Largest sum of the device ledger: what is known where no allocator tells."""
    peak_rss: Peak | None
    """Largest resident memory of a process."""
    wire_bytes: float | None
    """Median over these steps of the bytes that the busiest rank sent in each; None without
    a single row of communication."""


def summarise_run(
    *,
    steps: pa.Table,
    memory: pa.Table,
    comm: pa.Table,
    events: pa.Table | None = None,
) -> Headline:
    """The headline of a run from its tables, each with at least the columns named above.

    Where no engine kept a ledger, the largest memory of a process is what it said at its end.
    """
    rows, _ = last_attempts(steps)
    by_step = rows.group_by("step").aggregate([("skipped", "max"), ("profiled", "max")])
    counted = counted_steps(steps)
    last_loss_step, last_loss = _last_mean(rows, "loss")
    return Headline(
        recorded_steps=by_step.num_rows,
        last_step=pc.max(rows["step"]).as_py(),
        skipped_steps=_how_many(by_step["skipped_max"]),
        profiled_steps=_how_many(by_step["profiled_max"]),
        timed_steps=len(counted),
        median_wall_ns=_median(counted.wall_ns),
        last_loss=last_loss,
        last_loss_step=last_loss_step,
        loss_scale=_last_mean(rows, "loss_scale_next")[1],
        peak_device=_peak(memory, "peak_allocated_bytes"),
        peak_ledger=_peak_of_ledger(memory),
        peak_rss=_peak(memory, "peak_rss_bytes") or _peak_at_end(events),
        wire_bytes=_wire_bytes(comm, counted.step),
    )


def _last_mean(rows: pa.Table, column: str) -> tuple[int | None, float | None]:
    """The last step in which any rank states a value, and the mean over the ranks that do."""
    stated = rows.filter(pc.is_valid(rows[column]))
    step = pc.max(stated["step"]).as_py()
    if step is None:
        return None, None
    return step, pc.mean(stated.filter(pc.equal(stated["step"], step))[column]).as_py()


def _peak(memory: pa.Table, column: str) -> Peak | None:
    largest = pc.max(memory[column]).as_py()
    if largest is None:
        return None
    ranks = memory.filter(pc.equal(memory[column], largest))["rank"]
    return Peak(rank=pc.min(ranks).as_py(), peak_bytes=largest)


def _peak_of_ledger(memory: pa.Table) -> Peak | None:
    total: Any = pa.array(np.zeros(memory.num_rows, np.int64))
    for column in _LEDGER:
        total = pc.add(total, pc.fill_null(memory[column], 0))
    peak = _peak(pa.table({"rank": memory["rank"], "total": total}), "total")
    return peak if peak is not None and peak.peak_bytes else None


def _peak_at_end(events: pa.Table | None) -> Peak | None:
    if events is None:
        return None
    ends = events.filter(pc.equal(events["kind"], EventKind.FINISHED.value))
    return _peak(ends, "size_bytes")


def _wire_bytes(comm: pa.Table, timed_steps: Integers) -> float | None:
    """Bytes that the busiest rank sent in a timed step, at the median; a silent step counts as 0"""
    if comm.num_rows == 0:
        return None
    by_rank = comm.group_by(["step", "rank"]).aggregate([("wire_bytes", "sum")])
    by_rank = by_rank.filter(pc.is_in(by_rank["step"], value_set=pa.array(timed_steps)))
    by_step = by_rank.group_by("step").aggregate([("wire_bytes_sum", "max")])
    most = by_step["wire_bytes_sum_max"].to_numpy()
    silent = np.zeros(len(timed_steps) - len(most), dtype=np.int64)
    return _median(np.concatenate([most, silent]))


def _median(numbers: Integers) -> float | None:
    return float(np.median(numbers)) if len(numbers) else None


def _how_many(flags: pa.ChunkedArray) -> int:
    return int(pc.sum(flags).as_py() or 0)
