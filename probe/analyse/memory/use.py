"""How much memory a run needed at most, what it was made of, and how evenly ranks shared it.

The peak of a rank is the most that its device allocator held in a step, else the largest sum of its
device categories; the run's peak is that of its fullest rank. The ledger gives each category at its
largest within the step, so categories may sum to more than was held at one moment: what is left
over then is negative and says "not all at once". Profiled steps do not count: the profiler keeps
tensors alive.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from probe.analyse.steps.steps import Integers
from probe.schema.rows import MemoryRow
from probe.schema.vocabulary import MemoryCategory, Tier

LEDGER = {
    (tier, category): column
    for tier in Tier
    for category in MemoryCategory
    if (column := f"{tier.value}_{category.value}_bytes") in MemoryRow.__struct_fields__
}
"""The column of each category on each tier that the memory table knows."""
USE_COLUMNS = (
    "rank",
    "step",
    *LEDGER.values(),
    "peak_allocated_bytes",
    "peak_reserved_bytes",
    "allocator_retries",
    "peak_rss_bytes",
)
"""Columns of the memory table that `memory_use` reads."""


@dataclass(frozen=True, kw_only=True)
class MemoryPeak:
    """The fullest moment of one rank."""

    rank: int
    step: int
    peak_bytes: int
    from_allocator: bool
    """Told by the allocator; otherwise the sum of the ledger."""
    held_bytes: Mapping[tuple[Tier, MemoryCategory], int]
    """The ledger of that step on all tiers; what is zero is left out."""
    unaccounted_bytes: int
    """The peak minus the device categories: temporaries, or below zero what was not there all at
    once."""
    fragmented_bytes: int | None
    """Reserved and not allocated at the peak; None without an allocator."""


@dataclass(frozen=True, kw_only=True)
class Imbalance:
    """How much the fullest rank stands out."""

    fullest_rank: int
    excess_bytes: int
    """Its peak over the median of the ranks' peaks."""
    excess_share: float
    """The same over that median."""
    category: MemoryCategory
    """The device category that it holds most more of than the median rank does."""


@dataclass(frozen=True, kw_only=True)
class MemoryUse:
    """The memory of a run over its unprofiled steps."""

    peak: MemoryPeak
    rank_peak_bytes: Mapping[int, int]
    imbalance: Imbalance | None
    """None for a single rank."""
    allocator_retries: int | None
    """Allocations retried after a cache flush, by the rank that had most; None if not told."""
    peak_rss_bytes: int | None
    """Largest resident memory of a process."""
    capacity_bytes: int | None
    """What a rank may use, if it is known."""

    @property
    def headroom_bytes(self) -> int | None:
        """What the fullest rank leaves free, its reserve counted as used; without an allocator it
        is the largest process that counts."""
        if self.capacity_bytes is None:
            return None
        if not self.peak.from_allocator:
            rss = self.peak_rss_bytes
            return None if rss is None else self.capacity_bytes - rss
        return self.capacity_bytes - self.peak.peak_bytes - (self.peak.fragmented_bytes or 0)


def memory_use(
    memory: pa.Table,
    *,
    profiled_steps: Collection[int] = (),
    capacity_bytes: int | None = None,
) -> MemoryUse | None:
    """None without a single row of an unprofiled step."""
    profiled = pa.array(sorted(profiled_steps), pa.int64())
    rows = memory.filter(pc.invert(pc.is_in(memory["step"], value_set=profiled)))
    if not rows.num_rows:
        return None
    told = rows["peak_allocated_bytes"].null_count == 0
    column = rows["peak_allocated_bytes"].to_numpy() if told else _device_total(rows)
    ranks, rank_at = np.unique(rows["rank"].to_numpy(), return_inverse=True)
    peaks = np.full(len(ranks), -1, dtype=np.int64)
    np.maximum.at(peaks, rank_at, column)
    fullest = [
        int(np.flatnonzero((rank_at == at) & (column == peak))[0]) for at, peak in enumerate(peaks)
    ]
    retries = rows["allocator_retries"]
    return MemoryUse(
        peak=_peak(rows, fullest[int(peaks.argmax())], int(peaks.max()), told),
        rank_peak_bytes={int(rank): int(peak) for rank, peak in zip(ranks, peaks, strict=True)},
        imbalance=_imbalance(rows, ranks, peaks, fullest),
        allocator_retries=pc.max(retries).as_py(),
        peak_rss_bytes=pc.max(rows["peak_rss_bytes"]).as_py(),
        capacity_bytes=capacity_bytes,
    )


def _device_total(rows: pa.Table) -> Integers:
    columns = [column for (tier, _), column in LEDGER.items() if tier is Tier.DEVICE]
    total: Integers = np.sum([rows[column].to_numpy() for column in columns], axis=0)
    return total


def _peak(rows: pa.Table, at: int, peak_bytes: int, told: bool) -> MemoryPeak:
    row = rows.slice(at, 1).to_pylist()[0]
    held = {place: row[column] for place, column in LEDGER.items() if row[column]}
    on_device = sum(size for (tier, _), size in held.items() if tier is Tier.DEVICE)
    reserved = row["peak_reserved_bytes"]
    return MemoryPeak(
        rank=row["rank"],
        step=row["step"],
        peak_bytes=peak_bytes,
        from_allocator=told,
        held_bytes=held,
        unaccounted_bytes=peak_bytes - on_device,
        fragmented_bytes=reserved - peak_bytes if told and reserved is not None else None,
    )


def _imbalance(
    rows: pa.Table, ranks: Integers, peaks: Integers, fullest: list[int]
) -> Imbalance | None:
    if len(ranks) < 2:
        return None
    usual = float(np.median(peaks))
    top = int(peaks.argmax())
    excess = {}
    for (tier, category), column in LEDGER.items():
        if tier is Tier.DEVICE:
            at_peaks = rows[column].to_numpy()[fullest]
            excess[category] = float(at_peaks[top] - np.median(at_peaks))
    return Imbalance(
        fullest_rank=int(ranks[top]),
        excess_bytes=round(float(peaks[top]) - usual),
        excess_share=float(peaks[top]) / usual - 1 if usual else 0.0,
        category=max(excess, key=lambda category: excess[category]),
    )
