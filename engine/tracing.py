"""Where the wall time of a step goes: phases that nest, and still add up.

A phase that opens inside another takes the time away from it, so the sum over phases is the wall
time. The same words appear in `record_function`, hence in a profiler's trace; without a profiler
nobody would read them, and they are left out. What a device does meanwhile is another matter
(`device_time.py`): this is the host's clock.
"""

from collections.abc import Callable, Sequence
from time import monotonic_ns
from types import TracebackType

from torch import Tensor
from torch.autograd import profiler

from engine.marks import Mark, OnDevice
from probe.schema.vocabulary import Phase


class PhaseClock:
    """Exclusive time of each phase since the last `turn_over`, as the host sees it."""

    def __init__(self) -> None:
        self.computes_again = False
        """Whether what is computed now was computed before."""
        self._open: list[Phase] = [Phase.OTHER]
        self._spent_ns = dict.fromkeys(Phase, 0)
        self._mark_ns = self._began_ns = monotonic_ns()
        self._last_closed: Phase | None = None
        self._other_before_ns = 0

    @property
    def current(self) -> Phase:
        """The phase that time is being written to."""
        return self._open[-1]

    @property
    def mark_ns(self) -> int:
        """When a phase last began or ended: as long as it moves, so does the rank."""
        return self._mark_ns

    def phase(self, phase: Phase) -> "_Span":
        """Give the time inside to `phase`, also when an exception ends it."""
        return _Span(self, phase)

    def claim(self, after: Phase) -> None:
        """The script's own time up to now goes to `after`, if that was the last phase that ended.

        Between the model's forward and backward a script computes its loss, and hardly ever
        anything else.
        """
        if not self._may_claim(after):
            return
        self._settle()
        claimed_ns = self._spent_ns[Phase.OTHER] - self._other_before_ns
        self._spent_ns[Phase.OTHER] -= claimed_ns
        self._spent_ns[after] += claimed_ns
        self._last_closed = None

    def spent_ns(self, phase: Phase) -> int:
        """Time of one phase in the step under way, up to now."""
        self._settle()
        return self._spent_ns[phase]

    def turn_over(self) -> tuple[int, int, dict[Phase, int]]:
        """Begin, wall time and its phases since the last call; a new step begins."""
        self._settle()
        began_ns, spent_ns = self._began_ns, self._spent_ns
        self._began_ns = self._mark_ns
        self._spent_ns = dict.fromkeys(Phase, 0)
        self._last_closed = None
        return began_ns, self._mark_ns - began_ns, spent_ns

    def bring_home(self, number: Callable[[], Tensor]) -> Callable[[], float]:
        """A number of this step, to be had as soon as its times are: here whenever it is asked."""
        return lambda: float(number())

    def mark(self) -> Mark | None:
        """A moment of the device; None where the host's clock tells all."""
        return None

    def take_on_device(self) -> OnDevice | None:
        """The step that ended at the last `turn_over`, where the device sees it otherwise."""
        return None

    def _may_claim(self, after: Phase) -> bool:
        return self._last_closed is after and len(self._open) == 1

    def _enter(self, phase: Phase) -> None:
        self._settle()
        self._open.append(phase)

    def _leave(self) -> None:
        self._settle()
        self._last_closed = self._open.pop()
        self._other_before_ns = self._spent_ns[Phase.OTHER]

    def _settle(self) -> None:
        now_ns = monotonic_ns()
        self._spent_ns[self._open[-1]] += now_ns - self._mark_ns
        self._mark_ns = now_ns


class _Span:
    """One stretch of a phase: entered once, left once."""

    __slots__ = ("_clock", "_label", "_phase")

    def __init__(self, clock: PhaseClock, phase: Phase) -> None:
        self._clock = clock
        self._phase = phase
        self._label: profiler.record_function | None = None

    def __enter__(self) -> None:
        self._clock._enter(self._phase)
        if profiler._is_profiler_enabled:
            self._label = profiler.record_function(self._phase.value)
            self._label.__enter__()  # type: ignore[no-untyped-call]

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._label is not None:
            self._label.__exit__(kind, error, trace)
        self._clock._leave()


def covered_ns(intervals: Sequence[tuple[int, int]]) -> int:
    """How long at least one of the intervals was open."""
    total = 0
    reached = 0
    for begin, end in sorted(intervals):
        total += max(0, end - max(begin, reached))
        reached = max(reached, end)
    return total
