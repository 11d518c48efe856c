"""The host memory between disk and whoever works on a shelf: a bounded number of aligned buffers.

They are anonymous maps: aligned to pages, as direct I/O wants them, and given back to the system
when they go, whatever the allocator keeps.
"""

import mmap
import threading
from dataclasses import dataclass

import torch
from torch import Tensor

PAGE_BYTES = 4096


@dataclass(frozen=True, eq=False)
class Buffer:
    """One aligned piece of memory, as bytes for the system and as a tensor for the rest."""

    memory: mmap.mmap
    tensor: Tensor

    @property
    def size_bytes(self) -> int:
        """Its size."""
        return len(self.memory)


class HostBuffers:
    """Lends at most so many buffers at once to those who can do without."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._idle: list[Buffer] = []
        self._lent = 0
        self._freed = threading.Condition()
        self.held_bytes = 0

    def take_spare(self, size_bytes: int) -> Buffer | None:
        """A buffer if one is to spare."""
        with self._freed:
            return self._take(size_bytes) if self._lent < self._count else None

    def take_soon(self, size_bytes: int, timeout_s: float) -> Buffer | None:
        """A buffer, waited for if all are lent; None if none came back in that time."""
        with self._freed:
            if self._freed.wait_for(lambda: self._lent < self._count, timeout_s):
                return self._take(size_bytes)
            return None

    def take_beyond(self, size_bytes: int) -> Buffer:
        """One more than there should be: all are at hand at once, and another is needed too."""
        with self._freed:
            return self._take(size_bytes)

    def give(self, buffer: Buffer) -> None:
        """Take a lent buffer back."""
        with self._freed:
            self._lent -= 1
            if self._lent + len(self._idle) < self._count:
                self._idle.append(buffer)
            else:
                self.held_bytes -= buffer.size_bytes
            self._freed.notify()

    def _take(self, size_bytes: int) -> Buffer:
        self._lent += 1
        fitting = [each for each in self._idle if each.size_bytes >= size_bytes]
        if fitting:
            chosen = min(fitting, key=lambda each: each.size_bytes)
            self._idle = [each for each in self._idle if each is not chosen]
            return chosen
        if self._idle:
            self.held_bytes -= self._idle.pop().size_bytes
        memory = mmap.mmap(-1, size_bytes)
        self.held_bytes += size_bytes
        return Buffer(memory, torch.frombuffer(memory, dtype=torch.uint8))


def whole_pages(size_bytes: int) -> int:
    """Rounded up to whole pages."""
    return -(-size_bytes // PAGE_BYTES) * PAGE_BYTES
