"""The allocator's columns: read only, and a peak that never falls."""

from pathlib import Path
from typing import Any

import pytest
import torch

from engine import memory_rows
from engine.allocator import AllocatorWatch, allocator_of
from probe.schema.tables import MEMORY
from tests.engine.cases import config
from tests.engine.team import Team
from tests.telemetry.recorded import begin, micro_batch, recording_into, rows_of


class Allocator:
    """Says what an allocator would say."""

    def __init__(self) -> None:
        self.held = self.peak = self.retries = 0

    def hold(self, size: int) -> None:
        self.held = size
        self.peak = max(self.peak, size)

    def reset_peak(self) -> None:
        self.peak = self.held

    def statistics(self) -> dict[str, Any]:
        return {
            "allocated_bytes": {"all": {"current": self.held, "peak": self.peak}},
            "reserved_bytes": {"all": {"current": 2 * self.held, "peak": 2 * self.peak}},
            "num_alloc_retries": self.retries,
        }


def test_the_columns_are_the_allocators() -> None:
    allocator = Allocator()
    watch = AllocatorWatch(allocator.statistics)
    allocator.hold(700)
    allocator.hold(300)
    allocator.retries = 2
    assert watch.columns() == {
        "allocated_bytes": 300,
        "reserved_bytes": 600,
        "peak_allocated_bytes": 700,
        "peak_reserved_bytes": 1400,
        "allocator_retries": 2,
    }


def test_a_script_that_resets_its_peaks_does_not_lower_ours() -> None:
    allocator = Allocator()
    watch = AllocatorWatch(allocator.statistics)
    allocator.hold(700)
    watch.columns()
    allocator.hold(100)
    allocator.reset_peak()
    assert watch.columns()["peak_allocated_bytes"] == 700
    allocator.hold(900)
    assert watch.columns()["peak_allocated_bytes"] == 900


def test_where_nothing_counts_nothing_is_said() -> None:
    assert allocator_of(torch.device("cpu")) is None
    assert AllocatorWatch(dict).columns() == {}


def recorded_with_an_allocator(run_dir: str) -> None:
    allocator = Allocator()
    with pytest.MonkeyPatch.context() as patch, recording_into(run_dir):
        patch.setattr(
            memory_rows, "allocator_of", lambda device: AllocatorWatch(allocator.statistics)
        )
        trainer = begin(config(2))
        for number in range(3):
            allocator.hold(1000 - 100 * number)
            micro_batch(trainer, number)
        trainer.close()


def test_every_row_carries_them(teams: dict[int, Team], tmp_path: Path) -> None:
    teams[1].run(recorded_with_an_allocator, run_dir=str(tmp_path))
    rows = rows_of(tmp_path, MEMORY)
    assert [row["allocated_bytes"] for row in rows] == [1000, 900, 800]
    assert [row["peak_allocated_bytes"] for row in rows] == [1000] * 3
    assert [row["allocator_retries"] for row in rows] == [0] * 3
