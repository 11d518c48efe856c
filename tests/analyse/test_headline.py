"""The headline of runs whose truth is known because it was written by hand."""

import math
from collections.abc import Sequence
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from probe.analyse.steps.headline import (
    COMM_COLUMNS,
    MEMORY_COLUMNS,
    STEP_COLUMNS,
    Headline,
    Peak,
    summarise_run,
)
from probe.read.columns import arrow_schema
from probe.schema.rows import CommRow, MemoryRow, Row, StepRow
from probe.schema.tables import COMM, MEMORY, STEPS, Table
from probe.schema.vocabulary import CollectiveOp, Phase

MS = 1_000_000


def step(number: int, wall_ms: int, **facts: Any) -> StepRow:
    return StepRow(step=number, begin_ns=0, wall_ns=wall_ms * MS, **facts)


def sent(number: int, wire_bytes: int) -> CommRow:
    op = CollectiveOp.ALL_REDUCE
    return CommRow(step=number, phase=Phase.BACKWARD, op=op, wire_op=op, wire_bytes=wire_bytes)


def columns(table: Table, names: Sequence[str], *ranks: Sequence[Row]) -> pa.Table:
    """Rows of ranks 0, 1, … with only the columns that a headline asks for."""
    plain = [
        {"rank": rank, **msgspec.to_builtins(row)}
        for rank, rows in enumerate(ranks)
        for row in rows
    ]
    return pa.Table.from_pylist(plain, schema=arrow_schema(table)).select(list(names))


def headline(
    steps: Sequence[Sequence[StepRow]] = (),
    memory: Sequence[Sequence[MemoryRow]] = (),
    comm: Sequence[Sequence[CommRow]] = (),
) -> Headline:
    return summarise_run(
        steps=columns(STEPS, STEP_COLUMNS, *steps),
        memory=columns(MEMORY, MEMORY_COLUMNS, *memory),
        comm=columns(COMM, COMM_COLUMNS, *comm),
    )


def test_an_empty_run_tells_nothing_and_raises_nothing() -> None:
    assert headline() == Headline(
        recorded_steps=0,
        last_step=None,
        skipped_steps=0,
        profiled_steps=0,
        timed_steps=0,
        median_wall_ns=None,
        last_loss=None,
        last_loss_step=None,
        loss_scale=None,
        peak_device=None,
        peak_ledger=None,
        peak_rss=None,
        wire_bytes=None,
    )


def test_the_slowest_rank_sets_the_time_of_a_step() -> None:
    found = headline(
        steps=[
            [step(0, 10), step(1, 20), step(2, 30)],
            [step(0, 40), step(1, 15), step(2, 25)],
        ]
    )
    assert found.recorded_steps == found.timed_steps == 3
    assert found.last_step == 2
    assert found.median_wall_ns == 30 * MS  # of 40, 20, 30


def test_steps_that_any_rank_profiled_or_skipped_are_not_timed() -> None:
    found = headline(
        steps=[
            [step(0, 20), step(1, 1_000, profiled=True), step(2, 1), step(3, 20), step(4, 20)],
            [step(0, 20), step(1, 1_000), step(2, 1, skipped=True), step(3, 20), step(4, 20)],
        ]
    )
    assert (found.recorded_steps, found.timed_steps) == (5, 3)
    assert (found.profiled_steps, found.skipped_steps) == (1, 1)
    assert found.median_wall_ns == 20 * MS


def test_the_slow_beginning_is_not_timed() -> None:
    found = headline(steps=[[step(0, 900), *(step(number, 20) for number in range(1, 20))]])
    assert (found.recorded_steps, found.timed_steps) == (20, 19)
    assert found.median_wall_ns == 20 * MS


def test_nothing_but_skipped_steps_have_no_median() -> None:
    found = headline(steps=[[step(0, 10, skipped=True)]])
    assert found.median_wall_ns is None
    assert found.skipped_steps == 1


def test_a_repeated_step_counts_by_its_last_row() -> None:
    found = headline(steps=[[step(0, 10), step(1, 900, skipped=True), step(1, 30), step(2, 50)]])
    assert found.recorded_steps == 3
    assert found.skipped_steps == 0
    assert found.median_wall_ns == 30 * MS


def test_the_last_loss_is_the_mean_of_the_ranks_that_state_one() -> None:
    found = headline(
        steps=[
            [step(0, 1, loss=9.0), step(1, 1, loss=4.0), step(2, 1)],
            [step(0, 1, loss=9.0), step(1, 1, loss=2.0)],
            [step(0, 1, loss=9.0), step(1, 1)],
        ]
    )
    assert (found.last_loss, found.last_loss_step) == (3.0, 1)


def test_one_nan_makes_the_last_loss_nan() -> None:
    found = headline(steps=[[step(0, 1, loss=math.nan)], [step(0, 1, loss=2.0)]])
    assert found.last_loss is not None
    assert math.isnan(found.last_loss)


def test_the_scale_is_the_one_after_the_last_step_that_has_one() -> None:
    steps = [step(0, 1, loss_scale_next=65536.0), step(1, 1, loss_scale_next=32768.0), step(2, 1)]
    assert headline(steps=[steps]).loss_scale == 32768.0


def test_peaks_name_the_first_rank_that_reached_them() -> None:
    def ledger(peak: int | None, rss: int) -> MemoryRow:
        return MemoryRow(step=0, peak_allocated_bytes=peak, peak_rss_bytes=rss)

    found = headline(memory=[[ledger(None, 7)], [ledger(5, 9)], [ledger(5, 8), ledger(4, 9)]])
    assert found.peak_device == Peak(rank=1, peak_bytes=5)
    assert found.peak_rss == Peak(rank=1, peak_bytes=9)


def test_traffic_is_that_of_the_busiest_rank_over_timed_steps() -> None:
    steps = [step(0, 1), step(1, 1), step(2, 1), step(3, 1, skipped=True)]
    found = headline(
        steps=[steps, steps],
        comm=[
            [sent(0, 10), sent(0, 5), sent(1, 20), sent(2, 1), sent(3, 10_000)],
            [sent(0, 12), sent(1, 30), sent(2, 2)],
        ],
    )
    assert found.wire_bytes == 15  # of 10 + 5, 30, 2


@pytest.mark.parametrize(("silent_steps", "median"), [(1, 8.0), (2, 0.0)])
def test_a_step_without_traffic_counts_as_none(silent_steps: int, median: float) -> None:
    steps = [step(number, 1) for number in range(1 + silent_steps)]
    assert headline(steps=[steps], comm=[[sent(0, 16)]]).wire_bytes == median


def test_a_step_that_a_rank_did_not_reach_is_recorded_and_not_timed() -> None:
    rank = [step(0, 10), step(1, 10), step(2, 10)]
    crashed = headline(steps=[rank, rank[:2]])
    assert (crashed.recorded_steps, crashed.timed_steps) == (3, 2)


def test_without_an_allocator_the_ledger_tells_the_peak() -> None:
    rows = [
        [MemoryRow(step=0, device_params_bytes=5, device_grads_bytes=2)],
        [MemoryRow(step=0, device_params_bytes=5, device_grads_bytes=4), MemoryRow(step=1)],
    ]
    found = headline(memory=rows)
    assert found.peak_device is None
    assert found.peak_ledger is not None
    assert (found.peak_ledger.rank, found.peak_ledger.peak_bytes) == (1, 9)
