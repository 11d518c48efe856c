"""Time that a script waits for torch's DataLoader, given to the data phase.

A script that brings its own loader iterates it between two steps, where the engine sees nothing.
While a run is recorded the wait for each batch is timed where every such loader passes, whatever
the script calls it.
"""

import threading
from functools import wraps
from typing import Any

from torch.utils.data import dataloader

from engine.tracing import PhaseClock
from probe.schema.vocabulary import Phase

_clock: PhaseClock | None = None
_thread = 0
_plain_next = dataloader._BaseDataLoaderIter.__next__


def time_loaders(clock: PhaseClock) -> None:
    """From now on waiting for a batch is `data` on this clock."""
    global _clock, _thread
    _clock, _thread = clock, threading.get_ident()
    dataloader._BaseDataLoaderIter.__next__ = _timed_next  # type: ignore[method-assign, assignment]


@wraps(_plain_next)
def _timed_next(batches: Any) -> Any:
    # Within a phase (a loader inside a model, say) the time stays where it is; and a thread that
    # reads ahead keeps nobody waiting.
    if _clock is None or _clock.current is not Phase.OTHER or threading.get_ident() != _thread:
        return _plain_next(batches)
    with _clock.phase(Phase.DATA):
        return _plain_next(batches)
