"""What the device's allocator says of itself, read without changing anything in it.

Its peaks run from the start, or from the last time that somebody reset them. Resetting belongs to
the script, whose own figures would change, so a row carries the largest reading up to its step:
where the peak does not grow, the step stayed at or below it. Reading takes counters from the host's
side of the allocator and asks nothing of the device.
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch

Statistics = Mapping[str, Any]


class AllocatorWatch:
    """Reads the allocator once a step."""

    def __init__(self, read: Callable[[], Statistics]) -> None:
        self._read = read
        self._peak_allocated_bytes = 0
        self._peak_reserved_bytes = 0

    def columns(self) -> dict[str, int]:
        """The allocator's columns of the memory table; none where it was never used."""
        told = self._read()
        if not told:
            return {}
        allocated, reserved = told["allocated_bytes"]["all"], told["reserved_bytes"]["all"]
        self._peak_allocated_bytes = max(self._peak_allocated_bytes, allocated["peak"])
        self._peak_reserved_bytes = max(self._peak_reserved_bytes, reserved["peak"])
        return {
            "allocated_bytes": allocated["current"],
            "reserved_bytes": reserved["current"],
            "peak_allocated_bytes": self._peak_allocated_bytes,
            "peak_reserved_bytes": self._peak_reserved_bytes,
            "allocator_retries": told["num_alloc_retries"],
        }


def allocator_of(device: torch.device) -> AllocatorWatch | None:
    """The allocator of a device that has one which counts."""
    if device.type != "cuda":
        return None
    # Nested as the allocator keeps it: flat and sorted it costs several times as much.
    return AllocatorWatch(lambda: torch.cuda.memory_stats_as_nested_dict(device))
