"""Moments of a device, and the step that lies between the first of them and the last."""

from dataclasses import dataclass
from typing import Any, Protocol

from probe.schema.vocabulary import Phase


class DeviceEvent(Protocol):
    """A place in a stream; as torch.cuda.Event."""

    def query(self) -> bool:
        """Whether the device got there."""

    def elapsed_time(self, end_event: Any) -> float:
        """Milliseconds from here to there; both were reached."""


@dataclass(kw_only=True, eq=False, slots=True)
class Mark:
    """A moment of the device."""

    event: DeviceEvent
    asked_ns: int
    reached_ns: int | None = None
    """On the host's clock; None until its step is resolved."""


@dataclass(frozen=True, kw_only=True)
class StepTime:
    """How long a step took on the device."""

    began_ns: int
    wall_ns: int
    phase_ns: dict[Phase, int]
    recompute_ns: int


@dataclass(kw_only=True, eq=False)
class OnDevice:
    """A step that the host is done with, as the device will have seen it."""

    boundaries: list[Mark]
    labels: list[tuple[Phase, bool]]
    """The phase between each two boundaries, and whether it computed something again."""
    beside: list[Mark]
    """Marks within the phases."""
    free: list[DeviceEvent]
    """Takes the events that are done with."""

    def is_done(self) -> bool:
        """Whether the device got to the end of the step; nobody waits for the answer."""
        # The last one first: until it is there, the others need no question.
        return self.boundaries[-1].event.query() and all(
            mark.event.query() for mark in (*self.boundaries[:-1], *self.beside)
        )

    def resolve(self) -> StepTime:
        """Date every mark of a step that is done, and add up its phases; once."""
        first = self.boundaries[0]
        marks = (*self.boundaries, *self.beside)
        since_ns = [round(first.event.elapsed_time(mark.event) * 1e6) for mark in marks]
        began_ns = max(mark.asked_ns - passed for mark, passed in zip(marks, since_ns, strict=True))
        for mark, passed in zip(marks, since_ns, strict=True):
            mark.reached_ns = began_ns + passed
        phase_ns = dict.fromkeys(Phase, 0)
        recompute_ns = furthest_ns = 0
        for (phase, again), passed in zip(self.labels, since_ns[1:], strict=False):
            # A script may change streams between two marks, and those do not keep an order.
            spent_ns = max(0, passed - furthest_ns)
            furthest_ns += spent_ns
            phase_ns[phase] += spent_ns
            if again and phase is Phase.BACKWARD:
                recompute_ns += spent_ns
        # The last boundary is the first of the step after it.
        self.free += [mark.event for mark in (*self.boundaries[:-1], *self.beside)]
        return StepTime(
            began_ns=began_ns, wall_ns=furthest_ns, phase_ns=phase_ns, recompute_ns=recompute_ns
        )
