"""Which call of the host started what on the device."""

from dataclasses import dataclass

import numpy as np

from probe.analyse.trace.activity import device_events
from probe.read.trace import NONE, Int64s, Trace
from probe.schema.vocabulary import TraceCategory


@dataclass(frozen=True, kw_only=True)
class Launches:
    """Device events in order of their start, each with the call that launched it."""

    device: Int64s
    """Positions of the device events among all events."""
    call: Int64s
    """Position of the call that launched each; NONE where the trace does not have it."""


def find_launches(trace: Trace) -> Launches:
    """Match by correlation; where several calls share one, the first counts."""
    events = trace.events
    device = np.flatnonzero(device_events(trace))
    device = device[np.argsort(events.start_ns[device], kind="stable")]
    calls = np.flatnonzero(events.of(TraceCategory.LAUNCH) & (events.correlation != NONE))
    call = np.full(len(device), NONE, np.int64)
    if len(calls) and len(device):
        calls = calls[np.argsort(events.correlation[calls], kind="stable")]
        keys = events.correlation[calls]
        wanted = events.correlation[device]
        found = np.searchsorted(keys, wanted)
        found[found == len(keys)] = 0
        known = (keys[found] == wanted) & (wanted != NONE)
        call[known] = calls[found[known]]
    return Launches(device=device, call=call)
