"""The memory ledger of each rank over time, tier by tier and category by category."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa

from probe.analyse.memory.use import LEDGER
from probe.analyse.steps.steps import Integers, last_attempts
from probe.schema.vocabulary import MemoryCategory, Tier

MEMORY_SERIES_COLUMNS = (
    "rank",
    "step",
    *LEDGER.values(),
    "peak_allocated_bytes",
    "peak_reserved_bytes",
    "rss_bytes",
)
"""Columns of the memory table that `memory_series` reads."""


@dataclass(frozen=True, kw_only=True, eq=False)
class MemorySeries:
    """One rank, one entry a recorded step in every array."""

    rank: int
    step: Integers
    held_bytes: Mapping[tuple[Tier, MemoryCategory], Integers]
    """Only what is ever more than zero."""
    allocated_bytes: Integers | None
    """Most that the device allocator held within the step; None if it is not told throughout."""
    reserved_bytes: Integers | None
    rss_bytes: Integers | None

    def __len__(self) -> int:
        return len(self.step)

    def on(self, tier: Tier) -> dict[MemoryCategory, Integers]:
        """The categories of one tier, in their fixed order."""
        return {
            category: held for (where, category), held in self.held_bytes.items() if where is tier
        }


def memory_series(memory: pa.Table) -> dict[int, MemorySeries]:
    """The series of every rank, by rank, from rows sorted by rank and step."""
    rows, _ = last_attempts(memory)
    ranks, starts = np.unique(rows["rank"].to_numpy(), return_index=True)
    bounds = [*starts.tolist(), rows.num_rows]
    return {
        rank: _of_rank(rank, rows.slice(start, end - start))
        for rank, (start, end) in zip(ranks.tolist(), pairwise(bounds), strict=True)
    }


def _of_rank(rank: int, rows: pa.Table) -> MemorySeries:
    held = {place: _integers(rows, column) for place, column in LEDGER.items()}
    return MemorySeries(
        rank=rank,
        step=_integers(rows, "step"),
        held_bytes={place: column for place, column in held.items() if column.any()},
        allocated_bytes=_told(rows, "peak_allocated_bytes"),
        reserved_bytes=_told(rows, "peak_reserved_bytes"),
        rss_bytes=_told(rows, "rss_bytes"),
    )


def _told(rows: pa.Table, column: str) -> Integers | None:
    return None if rows[column].null_count else _integers(rows, column)


def _integers(rows: pa.Table, column: str) -> Integers:
    numbers: Integers = rows[column].to_numpy().astype(np.int64, copy=False)
    return numbers
