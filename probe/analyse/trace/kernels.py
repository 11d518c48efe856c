"""The table of kernels: what ran on the device, how often and how long."""

from dataclasses import dataclass

import numpy as np

from probe.analyse.trace.activity import ActivityKind, kernel_kinds
from probe.read.trace import Mask, Trace


@dataclass(frozen=True, kw_only=True)
class KernelRow:
    """All runs of one kernel."""

    name: str
    kind: ActivityKind
    calls: int
    total_ns: int
    shortest_ns: int
    longest_ns: int
    mean_ns: float
    deviation_ns: float
    """Standard deviation of the sample (n - 1); 0 for a single run."""


def kernel_table(trace: Trace, chosen: Mask | None = None) -> tuple[KernelRow, ...]:
    """Kernels, copies and fills by name, the longest total first; all, or the chosen events."""
    rows: list[KernelRow] = []
    for kind, of_kind in kernel_kinds(trace).items():
        rows += _rows(trace, kind, of_kind if chosen is None else of_kind & chosen)
    return tuple(sorted(rows, key=lambda row: (-row.total_ns, row.name)))


def _rows(trace: Trace, kind: ActivityKind, chosen: Mask) -> list[KernelRow]:
    names = trace.events.name[chosen]
    if not len(names):
        return []
    order = np.argsort(names, kind="stable")
    names, durations = names[order], trace.events.duration_ns[chosen][order]
    firsts = np.flatnonzero(np.diff(names, prepend=-1))
    calls = np.diff(firsts, append=len(names))
    totals = np.add.reduceat(durations, firsts)
    means = totals / calls
    squares = np.add.reduceat((durations - np.repeat(means, calls)) ** 2, firsts)
    columns = zip(
        names[firsts],
        calls,
        totals,
        np.minimum.reduceat(durations, firsts),
        np.maximum.reduceat(durations, firsts),
        means,
        np.sqrt(squares / np.maximum(calls - 1, 1)),
        strict=True,
    )
    return [
        KernelRow(
            name=trace.names[name],
            kind=kind,
            calls=int(count),
            total_ns=int(total),
            shortest_ns=int(shortest),
            longest_ns=int(longest),
            mean_ns=float(mean),
            deviation_ns=float(deviation),
        )
        for name, count, total, shortest, longest, mean, deviation in columns
    ]
