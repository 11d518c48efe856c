"""The profiled windows of a run as files to take away."""

import tempfile
from pathlib import Path

from probe.errors import ProbeError
from probe.merge import merge_run
from probe.read.inside import file_names, open_inside
from probe.read.run import Run
from probe.read.run_traces import TraceFile
from probe.schema.layout import rank_dir, step_of_trace
from probe.units import format_bytes

MOST_BYTES = 1 << 30
"""A browser takes no more in one go."""


def merged_trace(run: Run) -> bytes:
    """All ranks in one packed file for a timeline viewer."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "merged.json.gz"
        merge_run(run, path)
        return path.read_bytes()


def raw_trace(run: Run, file: TraceFile) -> bytes:
    """The window as the profiler wrote it, or distilled where only that is left."""
    folder = rank_dir(file.rank)
    named = [
        name
        for name in file_names(run.path, folder)
        if step_of_trace(name) == file.step and name != file.name
    ]
    with open_inside(run.path, folder, named[0] if named else file.name) as opened:
        content = opened.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise ProbeError(
            f"{folder}/{file.name} is larger than {format_bytes(MOST_BYTES)}; copy it from the "
            "run directory instead."
        )
    return content
