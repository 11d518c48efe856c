"""Writing the distilled form of traces beside where the profiler's JSON lies or would lie."""

from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq

from probe.read.problem import Problem
from probe.read.run_traces import find_traces, load_trace
from probe.read.trace import Trace
from probe.read.trace_table import to_table
from probe.schema.layout import TEMPORARY_SUFFIX, rank_dir, trace_parquet_name

ROWS_PER_GROUP = 1 << 18


@dataclass(frozen=True, kw_only=True)
class Distilled:
    """What distilling made of a run's traces."""

    paths: tuple[Path, ...]
    """Files written now; none if all windows were distilled already."""
    problems: tuple[Problem, ...]


def distill_run(root: Path) -> Distilled:
    """Distill every window of a run that has only the profiler's JSON; that stays."""
    paths: list[Path] = []
    problems: list[Problem] = []
    for window in find_traces(root):
        if window.distilled:
            continue
        trace = load_trace(root, window)
        problems += trace.problems
        if len(trace.events):
            paths.append(write_distilled(trace, root / rank_dir(window.rank), window.step))
    return Distilled(paths=tuple(paths), problems=tuple(problems))


def write_distilled(trace: Trace, folder: Path, step: int) -> Path:
    """Write `trace_<step>.parquet` as a whole or not at all."""
    path = folder / trace_parquet_name(step)
    temporary = path.with_name(path.name + TEMPORARY_SUFFIX)
    try:
        pq.write_table(
            to_table(trace),
            temporary,
            compression="zstd",
            row_group_size=ROWS_PER_GROUP,
            write_page_checksum=True,
        )
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    return path
