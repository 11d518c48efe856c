"""Operators and kernels of a profiled window as tables."""

from collections.abc import Sequence

from probe.analyse.trace.kernels import KernelRow
from probe.analyse.trace.operators import OperatorRow
from probe.text.comparison_blocks import Block
from probe.text.printable import shortened
from probe.units import format_count, format_duration

MOST_OPERATORS = 12
LONGEST_NAME = 60


def operators_block(
    operators: Sequence[OperatorRow], *, rank: int, most: int = MOST_OPERATORS
) -> Block:
    """By own time; what ran on the device has a column where anything did."""
    if not operators:
        return Block()
    on_device = any(item.device_ns for item in operators)
    rows = tuple(
        (
            shortened(item.name, longest=LONGEST_NAME),
            format_count(item.calls),
            format_duration(item.own_ns),
            format_duration(item.total_ns),
            *((format_duration(item.device_ns),) if on_device else ()),
        )
        for item in operators[:most]
    )
    return Block(
        title=f"Operators by own time, rank {rank}",
        headings=("operator", "calls", "own", "total", *(("device",) if on_device else ())),
        rows=rows,
        right=frozenset({1, 2, 3, 4}),
        below=_more(len(operators) - len(rows)),
    )


def kernels_block(kernels: Sequence[KernelRow], *, rank: int, most: int = MOST_OPERATORS) -> Block:
    """What ran on the device, by total time; empty for a trace of a CPU."""
    if not kernels:
        return Block()
    rows = tuple(
        (
            shortened(item.name, longest=LONGEST_NAME),
            item.kind.value,
            format_count(item.calls),
            format_duration(item.total_ns),
            format_duration(item.mean_ns),
            format_duration(item.longest_ns),
        )
        for item in kernels[:most]
    )
    return Block(
        title=f"Kernels by total time, rank {rank}",
        headings=("kernel", "kind", "calls", "total", "mean", "longest"),
        rows=rows,
        right=frozenset({2, 3, 4, 5}),
        below=_more(len(kernels) - len(rows)),
    )


def _more(left: int) -> tuple[str, ...]:
    return (f"… and {left:,} more.",) if left > 0 else ()
