"""The table of operators: how often, how long in all and on their own, and what they launched.

Own time is a call's duration less that of the operators inside it; calls to the driver stay with
the operator that made them. Device time is that of the kernels, copies and fills launched by the
operator itself, not by operators inside it, so each is counted once.
"""

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from probe.analyse.trace.hosting import Hosting, find_hosting, nearest
from probe.read.trace import NONE, Int64s, Mask, Signature, Trace
from probe.schema.vocabulary import TraceCategory


class Grouping(StrEnum):
    """Which calls make one row."""

    NAME = "name"
    SIGNATURE = "signature"
    """By name, shapes and types of the inputs; for traces recorded with shapes."""


@dataclass(frozen=True, kw_only=True)
class OperatorRow:
    """All calls of one operator, or those with one signature."""

    name: str
    signature: Signature | None
    """None if not grouped by it, or not recorded."""
    calls: int
    total_ns: int
    own_ns: int
    device_ns: int
    longest_ns: int


def operator_table(
    trace: Trace, *, grouping: Grouping = Grouping.NAME, chosen: Mask | None = None
) -> tuple[OperatorRow, ...]:
    """Operators by own time, the longest first; of the whole trace, or of the chosen events."""
    events = trace.events
    hosting = find_hosting(trace)
    operators = events.of(TraceCategory.OPERATOR)[hosting.positions]
    durations = events.duration_ns[hosting.positions]
    own = hosting.nesting.own_ns(durations, operators)
    device = _device_ns(trace, hosting, operators)
    counted = operators if chosen is None else operators & chosen[hosting.positions]
    if not counted.any():
        return ()
    names = events.name[hosting.positions][counted].astype(np.int64)
    signatures = np.full(len(names), NONE, np.int64)
    if grouping is Grouping.SIGNATURE:
        signatures = events.signature[hosting.positions][counted].astype(np.int64)
    keys = names * (len(trace.signatures) + 1) + signatures + 1
    order = np.argsort(keys, kind="stable")
    firsts = np.flatnonzero(np.diff(keys[order], prepend=-1))
    columns = zip(
        names[order][firsts],
        signatures[order][firsts],
        np.diff(firsts, append=len(names)),
        *(np.add.reduceat(part[counted][order], firsts) for part in (durations, own, device)),
        np.maximum.reduceat(durations[counted][order], firsts),
        strict=True,
    )
    rows = [
        OperatorRow(
            name=trace.names[name],
            signature=trace.signatures[signature] if signature != NONE else None,
            calls=int(calls),
            total_ns=int(total),
            own_ns=int(own_ns),
            device_ns=int(device_ns),
            longest_ns=int(longest),
        )
        for name, signature, calls, total, own_ns, device_ns, longest in columns
    ]
    return tuple(sorted(rows, key=lambda row: (-row.own_ns, row.name)))


def _device_ns(trace: Trace, hosting: Hosting, operators: Mask) -> Int64s:
    """Time on the device by the operator that launched it."""
    device = np.zeros(len(hosting.positions), np.int64)
    callers = nearest(hosting, hosting.caller, operators)
    known = callers != NONE
    launched = hosting.launches.device[known]
    np.add.at(device, callers[known], trace.events.duration_ns[launched])
    return device
