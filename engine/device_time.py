"""Where a device's time goes: the same phases, at the moments when the device gets to them.

The host only hands over work, so on its clock a phase lasts as long as the handing over. Here every
boundary between phases also leaves a mark, an event in the stream that computes. A mark is reached
when all that was asked for before it is done, and not before it was asked for. Four things follow:

- The time between two marks belongs to the phase between them. What waits in the stream for another
  stream (a collective's result, say) is in it, so `gather_wait` and `reduce_wait` are the time that
  computing stood still, and not the time that it took to say so.
- A phase of the host alone (loading data, saving a checkpoint) counts from where the device has run
  dry: as long as it still computes, that is the time of what it computes.
- A step lasts from its first mark to its last, which is the first of the next. Its phases sum to
  that by themselves, and steps to the whole; no remainder is left to be dealt out.
- Marks lie on the host's clock as early as they can while none is reached before it was asked for.
  That is exact where the device catches up with the host once in a step, as the engine's does at
  its norm and finite check; otherwise `begin_ns` may be early by what the device was behind.

Nobody waits for a mark: it is asked in later steps whether it was reached (`late.py`). While a CUDA
graph is captured none is left, and the time goes to the phase that ends after it.
"""

from collections.abc import Callable
from time import monotonic_ns
from typing import Any, Protocol

import torch
from torch import Tensor

from engine.marks import DeviceEvent, Mark, OnDevice
from engine.tracing import PhaseClock
from probe.schema.vocabulary import Phase


class DeviceTimer(Protocol):
    """What a device must offer for its time to be taken."""

    def event(self) -> DeviceEvent:
        """A new event."""

    def record(self, event: Any) -> None:
        """Put one of its events behind all that the current stream was asked for."""

    def takes_events(self) -> bool:
        """Whether an event recorded now is one that can be asked for its time."""


class CudaTimer:
    """The events of an NVIDIA device."""

    def __init__(self, device: torch.device) -> None:
        self._device = device

    def event(self) -> DeviceEvent:
        """One that keeps its time."""
        event: DeviceEvent = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        return event

    def record(self, event: Any) -> None:
        """Into the stream that computes; the model need not be on the current device."""
        event.record(torch.cuda.current_stream(self._device))

    def takes_events(self) -> bool:
        """Within a capture an event becomes a part of the graph."""
        return not torch.cuda.is_current_stream_capturing()


class DeviceClock(PhaseClock):
    """The host's clock, which leaves a mark on the device wherever a phase begins or ends."""

    def __init__(self, timer: DeviceTimer) -> None:
        super().__init__()
        self._timer = timer
        self._free: list[DeviceEvent] = []
        self._labels: list[tuple[Phase, bool]] = []
        self._beside: list[Mark] = []
        self._closed_at = 0
        self._ended: OnDevice | None = None
        self._boundaries = [self._new_mark()]

    def mark(self) -> Mark | None:
        """A moment within a phase."""
        if not self._timer.takes_events():
            return None
        self._beside.append(self._new_mark())
        return self._beside[-1]

    def claim(self, after: Phase) -> None:
        """The script's own time up to now goes to `after`, on the device too."""
        claims, closed_at = self._may_claim(after), self._closed_at
        super().claim(after)
        if claims:
            self._labels[closed_at:] = [(after, False)] * (len(self._labels) - closed_at)

    def turn_over(self) -> tuple[int, int, dict[Phase, int]]:
        """What the host saw of the step; what the device did is for `take_on_device`."""
        told = super().turn_over()
        self._ended = OnDevice(
            boundaries=self._boundaries,
            labels=self._labels,
            beside=self._beside,
            free=self._free,
        )
        self._boundaries, self._labels, self._beside = self._boundaries[-1:], [], []
        self._closed_at = 0
        return told

    def take_on_device(self) -> OnDevice | None:
        """The step that ended at the last `turn_over`."""
        taken, self._ended = self._ended, None
        return taken

    def bring_home(self, number: Callable[[], Tensor]) -> Callable[[], float]:
        """A copy to the host is asked for now; it is there once the step's last mark is reached."""
        sent = number().to("cpu", non_blocking=True)
        return lambda: float(sent)

    def _leave(self) -> None:
        super()._leave()
        self._closed_at = len(self._labels)

    def _settle(self) -> None:
        super()._settle()
        if self._timer.takes_events():
            self._labels.append((self.current, self.computes_again))
            self._boundaries.append(self._new_mark())

    def _new_mark(self) -> Mark:
        event = self._free.pop() if self._free else self._timer.event()
        self._timer.record(event)
        return Mark(event=event, asked_ns=monotonic_ns())


def clock_of(device: torch.device) -> PhaseClock:
    """The clock for a recording of what this device does."""
    return DeviceClock(CudaTimer(device)) if device.type == "cuda" else PhaseClock()
