"""A device that works through what it is asked for, beside a host with a clock of its own."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from engine import device_time, tracing
from engine.device_time import DeviceClock


class Event:
    """A place in the stream, with the moment at which the device gets there."""

    def __init__(self, device: "Device") -> None:
        self._device = device
        self.reached_ns: int | None = None

    def record(self) -> None:
        self.reached_ns = max(self._device.free_at_ns, self._device.now_ns)

    def query(self) -> bool:
        if self._device.failed:
            raise RuntimeError("the device failed")
        assert self.reached_ns is not None, "asked before it was recorded"
        return self.reached_ns <= self._device.now_ns

    def elapsed_time(self, later: "Event") -> float:
        assert self.query() and later.query(), "a time that is not there yet"
        return (later.reached_ns - self.reached_ns) / 1e6


class Device:
    """The stream, its host, and the timer of both."""

    def __init__(self) -> None:
        self.now_ns = 1_000_000
        self.free_at_ns = 0
        self.events = 0
        self.captures = self.failed = False

    def event(self) -> Event:
        self.events += 1
        return Event(self)

    def record(self, event: Event) -> None:
        event.record()

    def takes_events(self) -> bool:
        return not self.captures

    def host(self, spent_ns: int) -> None:
        """The host does something of its own."""
        self.now_ns += spent_ns

    def asked(self, work_ns: int) -> None:
        """The host asks for work, which takes it no time."""
        self.free_at_ns = max(self.free_at_ns, self.now_ns) + work_ns

    def host_waits(self) -> None:
        """The host reads a result."""
        self.now_ns = max(self.now_ns, self.free_at_ns)

    @contextmanager
    def clock(self) -> Iterator[DeviceClock]:
        """A clock of host and device, both simulated."""
        with pytest.MonkeyPatch.context() as patch:
            for module in (tracing, device_time):
                patch.setattr(module, "monotonic_ns", lambda: self.now_ns)
            yield DeviceClock(self)
