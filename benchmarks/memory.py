"""How much memory this process holds and has held, from the kernel's own account."""

import ctypes
import gc
from pathlib import Path

STATUS = Path("/proc/self/status")
CLEAR_REFS = Path("/proc/self/clear_refs")
RESET_PEAK = "5"


def resident_bytes() -> int:
    """Return the resident set now."""
    return _status_bytes("VmRSS")


def peak_resident_bytes() -> int:
    """Return the largest resident set since the process began or `forget_peak` was called.

    Not `ru_maxrss`: that one survives exec, so a child would report its parent's peak.
    """
    return _status_bytes("VmHWM")


def forget_peak() -> None:
    """Give freed memory back to the kernel and start the peak anew, so building does not count."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    CLEAR_REFS.write_text(RESET_PEAK)


def _status_bytes(field: str) -> int:
    for line in STATUS.read_text().splitlines():
        name, _, value = line.partition(":")
        if name == field:
            return int(value.removesuffix("kB")) * 1024
    raise LookupError(f"{STATUS} has no {field}; peaks are measured on Linux only")
