"""Operators side by side, for runs that both have a trace: where a step spends more or less.

Kernels are compared where both
traces have a device, else operators by their own time. Figures are a step of the window.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from probe.analyse.trace.kernels import kernel_table
from probe.analyse.trace.operators import operator_table
from probe.analyse.trace.steps import find_steps
from probe.read.trace import Trace

MOST_SHIFTS = 10


@dataclass(frozen=True, kw_only=True)
class TracedTime:
    """What a window tells of time: by name, calls and own nanoseconds a step."""

    kernels: Mapping[str, tuple[float, float]]
    operators: Mapping[str, tuple[float, float]]


@dataclass(frozen=True, kw_only=True)
class OperatorShift:
    """One operator or kernel, a step, in A and in B; absent is zero."""

    name: str
    kernel: bool
    first_calls: float
    second_calls: float
    first_ns: float
    second_ns: float

    @property
    def delta_ns(self) -> float:
        """What B takes longer."""
        return self.second_ns - self.first_ns


def traced_time(trace: Trace) -> TracedTime:
    """The operators and kernels of a window, a step."""
    steps = max(1, len(find_steps(trace).steps))
    return TracedTime(
        kernels={
            row.name: (row.calls / steps, row.total_ns / steps) for row in kernel_table(trace)
        },
        operators={
            row.name: (row.calls / steps, row.own_ns / steps) for row in operator_table(trace)
        },
    )


def operator_shifts(
    first: TracedTime | None, second: TracedTime | None
) -> tuple[OperatorShift, ...]:
    """Those that moved most, the largest first; empty unless both have a trace."""
    if first is None or second is None:
        return ()
    on_device = bool(first.kernels and second.kernels)
    sides = (first.kernels, second.kernels) if on_device else (first.operators, second.operators)
    shifts = [
        OperatorShift(
            name=name,
            kernel=on_device,
            first_calls=sides[0].get(name, (0.0, 0.0))[0],
            second_calls=sides[1].get(name, (0.0, 0.0))[0],
            first_ns=sides[0].get(name, (0.0, 0.0))[1],
            second_ns=sides[1].get(name, (0.0, 0.0))[1],
        )
        for name in {**sides[0], **sides[1]}
    ]
    moved = [item for item in shifts if item.delta_ns]
    return tuple(sorted(moved, key=_by_size)[:MOST_SHIFTS])


def _by_size(item: OperatorShift) -> tuple[float, str]:
    return -abs(item.delta_ns), item.name
