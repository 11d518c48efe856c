"""What a script tells the recording itself: numbers of its own, and named regions.

Without `probe run` both do nothing, so they may stay in a script for good.
"""

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from torch.autograd.profiler import record_function

from engine.recording import Session, current
from probe.schema.rows import EventRow, MetricRow
from probe.schema.vocabulary import EventKind, Phase

_PHASES = frozenset(Phase)


def log(**metrics: float) -> None:
    """Record numbers under their names in the step under way: `engine.log(accuracy=0.93)`.

    `tokens`, logged before `engine.step`, is also what the step counts as consumed on this rank.
    """
    session = current()
    if session is None or session.writer is None:
        return
    now_ns = time.monotonic_ns()
    if "tokens" in metrics:
        session.tokens = (session.tokens or 0) + int(metrics["tokens"])
    for name, value in metrics.items():
        session.writer.write(
            MetricRow(step=session.step, name=name, value=float(value), time_ns=now_ns)
        )


@contextmanager
def annotate(name: str) -> Iterator[None]:
    """Name a stretch of the script, in the events and in a trace.

    Named after a phase, it counts as that: `with engine.annotate("data"): batch = next(...)`.
    """
    session = current()
    began_ns = time.monotonic_ns()
    try:
        with record_function(name), _phase(session, name):
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


def _phase(session: Session | None, name: str) -> AbstractContextManager[None]:
    if session is None or session.clock is None or name not in _PHASES:
        return nullcontext()
    return session.clock.phase(Phase(name))
