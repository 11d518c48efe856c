"""The resident memory of this process, now and at its largest.

Read from /proc in one go where there is one. `ru_maxrss` would not do for the largest: on Linux it
survives exec, so a rank would report the peak of whoever started it.
"""

import os
import resource
import sys
from dataclasses import dataclass

_STATUS = "/proc/self/status"
_LONGEST_STATUS_BYTES = 4096
_descriptor: int | None = None


@dataclass(frozen=True, kw_only=True)
class Resident:
    """Bytes of memory that are really there."""

    now_bytes: int | None
    """None where the system does not tell."""
    peak_bytes: int


def resident() -> Resident:
    """What this process holds."""
    global _descriptor
    try:
        if _descriptor is None:
            # Kept open: opening it anew costs as much as reading it.
            _descriptor = os.open(_STATUS, os.O_RDONLY | os.O_CLOEXEC)
        status = os.pread(_descriptor, _LONGEST_STATUS_BYTES, 0)
        return Resident(
            now_bytes=_kilobytes(status, b"VmRSS:") * 1024,
            peak_bytes=_kilobytes(status, b"VmHWM:") * 1024,
        )
    except (OSError, ValueError):
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return Resident(
            now_bytes=None, peak_bytes=peak if sys.platform == "darwin" else peak * 1024
        )


def _kilobytes(status: bytes, name: bytes) -> int:
    start = status.index(name) + len(name)
    return int(status[start : status.index(b"kB", start)])
