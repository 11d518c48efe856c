"""Freed host memory stays with the process: getting it back costs more than a step can afford.

glibc returns large freed blocks to the kernel, and the next step's activations and gradients are
then zeroed and mapped anew, page by page: about a tenth of the time of a CPU step. The peak is not
raised by keeping them: what is kept was in use a moment before. Whoever sets glibc's own
environment variables is left alone.

Where shards rest on disk memory is what counts, not time: there the heap, once in pieces, could
hold half as much again as is in use, so large blocks go back as soon as they are freed.
"""

import ctypes
import os
import platform

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3
_OWN_SETTINGS = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_TOP_PAD_", "MALLOC_MMAP_THRESHOLD_")


def keep_freed_memory() -> bool:
    """Ask glibc not to give memory back between steps; False where there is no glibc to ask."""
    return _wish({_MMAP_THRESHOLD: 32 << 20, _TRIM_THRESHOLD: 2**31 - 1, _TOP_PAD: 64 << 20})


def give_freed_memory_back() -> bool:
    """Ask glibc to give large blocks back at once; False where there is no glibc to ask."""
    return _wish({_MMAP_THRESHOLD: 1 << 20, _TRIM_THRESHOLD: 1 << 20, _TOP_PAD: 1 << 17})


def _wish(wishes: dict[int, int]) -> bool:
    if platform.libc_ver()[0] != "glibc" or any(name in os.environ for name in _OWN_SETTINGS):
        return False
    libc = ctypes.CDLL(None)
    return all(libc.mallopt(parameter, value) for parameter, value in wishes.items())
