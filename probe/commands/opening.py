"""Opening a run for a verb that needs its tables."""

from pathlib import Path

from probe.errors import FormatVersionError
from probe.read.run import Run, load_run
from probe.schema.layout import FORMAT_MAJOR


def open_readable(path: Path) -> Run:
    """The run, refused in one sentence if its format is of another major version."""
    run = load_run(path)
    if not run.readable:
        raise FormatVersionError(
            f"{run.path} was written in format {run.manifest.format_version[:40]!r}, and this "
            f"version reads {FORMAT_MAJOR}.x; open it with the version of ZeroProbe that recorded "
            "it, or upgrade."
        )
    return run
