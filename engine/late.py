"""Steps that ended on the host and not yet on the device: written in order, once it got there.

Nothing here waits while training goes on. The queue needs no bound of its own: each mark takes a
place among what the driver lets the host be ahead by, which is about a thousand launches. At the
end of the recording the device gets a moment to finish; a step that it never ends (it failed, or a
collective hangs on it) is written as the host saw it, without its loss.
"""

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from engine.facts import CollectiveFacts, StepFacts
from probe.schema.rows import MemoryRow

LAST_WAIT_S = 5.0
PAUSE_S = 0.001


@dataclass(frozen=True, kw_only=True)
class EndedStep:
    """All that was told of a step, for its rows."""

    facts: StepFacts
    calls: Sequence[CollectiveFacts]
    memory: MemoryRow
    samples: int | None
    tokens: int | None
    profiled: bool


class LateSteps:
    """Hands on steps as soon as their times are known."""

    def __init__(self, write: Callable[[EndedStep], None]) -> None:
        self._write = write
        self._waiting: deque[EndedStep] = deque()

    def add(self, step: EndedStep) -> None:
        """One more; on the host alone its times are known already."""
        while self._waiting and _is_done(self._waiting[0]):
            self._write(_resolved(self._waiting.popleft()))
        if step.facts.on_device is None and not self._waiting:
            self._write(step)
        else:
            self._waiting.append(step)

    def finish(self) -> None:
        """Write what is left, whether the device gets there or not."""
        until = time.monotonic() + LAST_WAIT_S
        while self._waiting:
            if _is_done(self._waiting[0]):
                self._write(_resolved(self._waiting.popleft()))
            elif time.monotonic() >= until:
                self._write(_given_up(self._waiting.popleft()))
            else:
                time.sleep(PAUSE_S)


def _is_done(step: EndedStep) -> bool:
    on_device = step.facts.on_device
    try:
        return on_device is None or on_device.is_done()
    except RuntimeError:
        return False  # A device that failed fails every question; the script hears of it itself.


def _resolved(step: EndedStep) -> EndedStep:
    facts = step.facts
    if facts.on_device is None:
        return step
    spent = facts.on_device.resolve()
    return replace(
        step,
        facts=replace(
            facts,
            began_ns=spent.began_ns,
            wall_ns=spent.wall_ns,
            phase_ns=spent.phase_ns,
            recompute_ns=spent.recompute_ns,
        ),
        calls=[call.as_reached() for call in step.calls],
    )


def _given_up(step: EndedStep) -> EndedStep:
    return replace(step, facts=replace(step.facts, loss=lambda: None))
