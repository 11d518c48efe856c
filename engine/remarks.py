"""What a script tells the recording itself: numbers of its own, and named regions.

Without `probe run` both do nothing, so they may stay in a script for good.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from torch.autograd.profiler import record_function

from engine.recording import current
from probe.schema.rows import EventRow, MetricRow
from probe.schema.vocabulary import EventKind


def log(**metrics: float) -> None:
    """Record numbers under their names in the step under way: `engine.log(accuracy=0.93)`."""
    session = current()
    if session is None or session.writer is None:
        return
    now_ns = time.monotonic_ns()
    for name, value in metrics.items():
        session.writer.write(
            MetricRow(step=session.step, name=name, value=float(value), time_ns=now_ns)
        )


@contextmanager
def annotate(name: str) -> Iterator[None]:
    """Name a stretch of the script, in the events and in a trace."""
    session = current()
    began_ns = time.monotonic_ns()
    try:
        with record_function(name):
            yield
    finally:
        if session is not None and session.writer is not None:
            session.writer.write(
                EventRow(
                    time_ns=began_ns,
                    kind=EventKind.REGION,
                    step=session.step,
                    name=name,
                    duration_ns=time.monotonic_ns() - began_ns,
                )
            )
