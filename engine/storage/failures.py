"""What can go wrong where shards rest, said with the file and the remedy."""

import errno
from pathlib import Path

from probe.errors import ProbeError
from probe.units import format_bytes

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class StorageError(ProbeError):
    """A shard cannot be put where it should rest, or is not there any more."""


class DamagedRecordError(StorageError):
    """What was read is not what was written."""


def explain(error: OSError, path: Path, doing: str, *, size_bytes: int = 0) -> StorageError:
    """An error of the system as a sentence for people."""
    if error.errno in _FULL:
        return StorageError(
            f"{path}: no room for {format_bytes(size_bytes)} more while {doing}"
            f" ({error.strerror}). Free space there, raise the limit on file sizes, or name another"
            " folder as nvme_path (--offload-path)."
        )
    return StorageError(f"{path}: {doing} failed: {error.strerror or error}.")
