"""Where the wall time of a step goes: phases that nest, and still add up.

A phase that opens inside another takes the time away from it, so the sum over phases is the wall
time. The same words appear in `record_function`, hence in a profiler's trace.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic_ns

from torch.autograd.profiler import record_function

from probe.schema.vocabulary import Phase


class PhaseClock:
    """Exclusive time of each phase since the last `turn_over`."""

    def __init__(self) -> None:
        self._open: list[Phase] = [Phase.OTHER]
        self._spent_ns = dict.fromkeys(Phase, 0)
        self._mark_ns = self._began_ns = monotonic_ns()

    @property
    def current(self) -> Phase:
        """The phase that time is being written to."""
        return self._open[-1]

    @contextmanager
    def phase(self, phase: Phase) -> Iterator[None]:
        """Give the time inside to `phase`, also when an exception ends it."""
        self._settle()
        self._open.append(phase)
        try:
            with record_function(phase.value):
                yield
        finally:
            self._settle()
            self._open.pop()

    def turn_over(self) -> tuple[int, dict[Phase, int]]:
        """Wall time and its phases since the last call; a new step begins."""
        self._settle()
        wall_ns, spent_ns = self._mark_ns - self._began_ns, self._spent_ns
        self._began_ns = self._mark_ns
        self._spent_ns = dict.fromkeys(Phase, 0)
        return wall_ns, spent_ns

    def _settle(self) -> None:
        now_ns = monotonic_ns()
        self._spent_ns[self._open[-1]] += now_ns - self._mark_ns
        self._mark_ns = now_ns
