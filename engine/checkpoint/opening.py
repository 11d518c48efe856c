"""Reading files of a checkpoint: plain files only, and every fault named with its file."""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from probe.errors import ProbeError


class DamagedCheckpointError(ProbeError):
    """A checkpoint that cannot be loaded, with the file and the reason."""


def damaged(file: Path, reason: str) -> DamagedCheckpointError:
    """The error for a file that is not as it was written."""
    return DamagedCheckpointError(f"{file} cannot be loaded: {reason}")


@contextmanager
def opened(file: Path) -> Iterator[int]:
    """A descriptor of a plain file; a pipe would keep us waiting, a device is nobody's state."""
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise damaged(file, f"it cannot be read ({error.strerror})") from error
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise damaged(file, "it is no plain file")
        yield descriptor
    except OSError as error:
        raise damaged(file, f"it cannot be read ({error.strerror})") from error
    finally:
        os.close(descriptor)


def read_whole(file: Path, *, limit_bytes: int) -> bytes:
    """All of a small file."""
    with opened(file) as descriptor:
        size = os.fstat(descriptor).st_size
        if size > limit_bytes:
            raise damaged(file, f"it has {size} bytes, more than any such file")
        return bytes(read_at(descriptor, file, 0, size))


def read_at(descriptor: int, file: Path, at: int, size_bytes: int) -> bytearray:
    """So many bytes from a place on."""
    content = bytearray(size_bytes)
    rest = memoryview(content)
    while rest:
        count = os.preadv(descriptor, [rest], at)
        if not count:
            raise damaged(file, "it ends too early")
        at += count
        rest = rest[count:]
    return content
