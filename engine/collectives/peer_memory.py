"""The memory of another process of this host, read without its help: one copy and no socket.

Linux lets a process read another's memory if it may trace it (`process_vm_readv`), as processes of
one user may where nothing forbids it. What is read goes straight to where it is wanted; no page is
shared, so nobody's resident memory grows.
"""

import ctypes
import os
from pathlib import Path

from torch import Tensor

_SET_PTRACER = 0x59616D61
_ANY_PROCESS = ctypes.c_ulong(-1)
_YAMA = Path("/proc/sys/kernel/yama/ptrace_scope")


class _Piece(ctypes.Structure):
    """struct iovec."""

    _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]


_PIECES = ctypes.POINTER(_Piece)


class PeerMemory:
    """The memory of the process `pid`."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._read = ctypes.CDLL(None, use_errno=True).process_vm_readv
        self._read.restype = ctypes.c_ssize_t
        self._read.argtypes = [
            ctypes.c_int,
            *(_PIECES, ctypes.c_ulong),
            *(_PIECES, ctypes.c_ulong),
            ctypes.c_ulong,
        ]

    def read_into(self, tensor: Tensor, address: int) -> None:
        """Fill a contiguous tensor with what lies at `address` there; OSError if it cannot be."""
        self.read_bytes(tensor.data_ptr(), address, tensor.numel() * tensor.element_size())

    def read_bytes(self, here: int, there: int, length: int) -> None:
        """Copy `length` bytes from the address `there` to the own address `here`."""
        done = 0
        while done < length:
            left = length - done
            mine, theirs = _Piece(here + done, left), _Piece(there + done, left)
            got = self._read(self._pid, ctypes.byref(mine), 1, ctypes.byref(theirs), 1, 0)
            if got <= 0:
                problem = ctypes.get_errno()
                raise OSError(problem, f"memory of process {self._pid}: {os.strerror(problem)}")
            done += got


def let_peers_read() -> None:
    """Where Yama lets only ancestors trace, say that others of the same user may."""
    if _YAMA.exists():
        # Refused or not, what counts is whether a peer then can read.
        ctypes.CDLL(None).prctl(_SET_PTRACER, _ANY_PROCESS, 0, 0, 0)


def host_and_processes() -> str | None:
    """Equal for processes that can name each other by number; None where nobody can be read."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return None
