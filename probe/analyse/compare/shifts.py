"""What moved between two runs, in parts: memory by category, communication by operation.

Memory is the ledger of the fullest rank at its peak, beside the closed form of each run's own stage
and precision. Communication is that of a rank in a usual step. Of several runs on a side the one
with the largest peak stands for memory, and the mean over the runs for communication.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from probe.analyse.communication.theory import Exchange
from probe.analyse.communication.use import OperationTraffic
from probe.analyse.compare.measured_run import MeasuredRun
from probe.schema.vocabulary import MemoryCategory, Tier


@dataclass(frozen=True, kw_only=True)
class MemoryShift:
    """One category on one tier, in A and in B; None where a side does not tell."""

    tier: Tier
    category: MemoryCategory | None
    """None for what lies outside all categories."""
    first_bytes: int | None
    second_bytes: int | None
    first_theory_bytes: int | None
    """By the closed form of A's stage, precision, world and offload; None without a form."""
    second_theory_bytes: int | None


@dataclass(frozen=True, kw_only=True)
class TrafficShift:
    """One operation as it went over the wire, a rank and step, in A and in B; absent is zero."""

    op: str
    wire_op: str
    first_logical_bytes: float
    second_logical_bytes: float
    first_wire_bytes: float
    second_wire_bytes: float
    first_exposed_ns: float
    second_exposed_ns: float


@dataclass(frozen=True, kw_only=True)
class ExchangeShift:
    """What a rank reduced or gathered a step, in A and in B; None where a side does not tell."""

    exchange: Exchange
    first_logical_bytes: float | None
    second_logical_bytes: float | None
    first_theory_bytes: float | None
    """By the closed form of A's stage, world and accumulation."""
    second_theory_bytes: float | None


def memory_shifts(
    first: Sequence[MeasuredRun], second: Sequence[MeasuredRun]
) -> tuple[MemoryShift, ...]:
    """Every category that a side holds or expects, tier by tier."""
    sides = [_fullest(side) for side in (first, second)]
    if None in sides:
        return ()
    lines = [
        {(item.tier, item.category): item for item in run.beside if item.category} if run else {}
        for run in sides
    ]
    places = [
        (tier, category)
        for tier in Tier
        for category in MemoryCategory
        if any((tier, category) in side for side in lines)
    ]
    shifts = []
    for tier, category in places:
        left, right = (side.get((tier, category)) for side in lines)
        shifts.append(
            MemoryShift(
                tier=tier,
                category=category,
                first_bytes=left.measured_bytes if left else 0,
                second_bytes=right.measured_bytes if right else 0,
                first_theory_bytes=left.theory_bytes if left else None,
                second_theory_bytes=right.theory_bytes if right else None,
            )
        )
    return tuple(shifts)


def traffic_shifts(
    first: Sequence[MeasuredRun], second: Sequence[MeasuredRun]
) -> tuple[TrafficShift, ...]:
    """Every operation of either side, most wire bytes first."""
    sides = [_by_operation(side) for side in (first, second)]
    shifts = []
    for op, wire_op in {**sides[0], **sides[1]}:
        left, right = (side.get((op, wire_op), (0.0, 0.0, 0.0)) for side in sides)
        shifts.append(
            TrafficShift(
                op=op,
                wire_op=wire_op,
                first_logical_bytes=left[0],
                second_logical_bytes=right[0],
                first_wire_bytes=left[1],
                second_wire_bytes=right[1],
                first_exposed_ns=left[2],
                second_exposed_ns=right[2],
            )
        )
    return tuple(
        sorted(
            shifts, key=lambda item: (-max(item.first_wire_bytes, item.second_wire_bytes), item.op)
        )
    )


def exchange_shifts(
    first: Sequence[MeasuredRun], second: Sequence[MeasuredRun]
) -> tuple[ExchangeShift, ...]:
    """Both exchanges, of the first run of each side; empty unless a side has a closed form."""
    left, right = (
        {line.exchange: line for line in side[0].traffic_beside} for side in (first, second)
    )
    return tuple(
        ExchangeShift(
            exchange=exchange,
            first_logical_bytes=a.logical_bytes if a else None,
            second_logical_bytes=b.logical_bytes if b else None,
            first_theory_bytes=a.theory_logical_bytes if a else None,
            second_theory_bytes=b.theory_logical_bytes if b else None,
        )
        for exchange in Exchange
        for a, b in ((left.get(exchange), right.get(exchange)),)
        if a or b
    )


def _fullest(side: Sequence[MeasuredRun]) -> MeasuredRun | None:
    peaks = {run.memory.peak.peak_bytes: run for run in reversed(side) if run.memory}
    return peaks[max(peaks)] if peaks else None


def _by_operation(
    side: Sequence[MeasuredRun],
) -> dict[tuple[str, str], tuple[float, float, float]]:
    """Logical bytes, wire bytes and exposed time of each operation, mean over the runs."""
    operations: dict[tuple[str, str], list[OperationTraffic]] = {}
    for run in side:
        for item in run.traffic.operations if run.traffic else ():
            operations.setdefault((item.op, item.wire_op), []).append(item)
    runs = len(side)
    return {
        key: (
            float(np.sum([item.logical_bytes for item in items])) / runs,
            float(np.sum([item.wire_bytes for item in items])) / runs,
            float(np.sum([item.exposed_ns for item in items])) / runs,
        )
        for key, items in operations.items()
    }
