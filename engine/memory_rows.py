"""The memory of a step as a row: the ledger, the allocator's own figures, and the process."""

from collections.abc import Callable
from time import monotonic_ns

import torch

from engine.allocator import allocator_of
from engine.kept import KeptActivations
from engine.memory import Ledger
from engine.resident import resident
from probe.schema.rows import MemoryRow
from probe.schema.vocabulary import MemoryCategory

RESIDENT_AGE_NS = 100_000_000
"""Asking the system costs much beside a step of few milliseconds: an answer serves for so long."""


class MemoryRows:
    """Makes the rows of one rank; between two looks at the ledger it is the one before."""

    def __init__(
        self, ledger: Callable[[], Ledger], kept: KeptActivations, device: torch.device
    ) -> None:
        self._ledger = ledger
        self._kept = kept
        self._allocator = allocator_of(device)
        self._held: dict[str, int] = {}
        self._resident = resident()
        self._resident_asked_ns = monotonic_ns()

    def take_ledger(self) -> None:
        """Look at model states and activations now."""
        self._held = self._columns()

    def row(self, step: int, *, grows: bool) -> MemoryRow:
        """The row of a step that ends now; states still come into being where it `grows`."""
        if grows:
            # Optimizer states come into being within the first step, after the gradients.
            later = self._columns()
            self._held = {name: max(self._held.get(name, 0), held) for name, held in later.items()}
        now_ns = monotonic_ns()
        if now_ns - self._resident_asked_ns >= RESIDENT_AGE_NS:
            self._resident_asked_ns = now_ns
            self._resident = resident()
        told = {} if self._allocator is None else self._allocator.columns()
        return MemoryRow(
            step=step,
            rss_bytes=self._resident.now_bytes,
            peak_rss_bytes=self._resident.peak_bytes,
            **told,
            **self._held,
        )

    def _columns(self) -> dict[str, int]:
        """The ledger as columns of the memory table."""
        ledger = self._ledger()
        elsewhere: dict[MemoryCategory, int] = dict.fromkeys(MemoryCategory, 0)
        columns = {}
        for (tier, category), size in ledger.away_bytes.items():
            elsewhere[category] += size
            columns[f"{tier}_{category}_bytes"] = size
        return {
            **{
                f"device_{category}_bytes": ledger.held_bytes.get(category, 0) - away
                for category, away in elsewhere.items()
            },
            **columns,
            "host_activations_bytes": self._kept.host_bytes,
        }
