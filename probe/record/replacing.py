"""Replacing a small file as a whole: readers see the old one or the new one, never a part."""

import os
from pathlib import Path

from probe.schema.layout import TEMPORARY_SUFFIX


def replace_file(path: Path, content: bytes) -> None:
    """Write beside the file, flush to disk, rename over it."""
    temporary = path.with_name(path.name + TEMPORARY_SUFFIX)
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
