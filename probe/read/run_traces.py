"""The traces of a run: which there are, and one of them in memory.

The distilled form is read where it is there; else the profiler's JSON, which takes longer.
"""

import contextlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq

from probe.read.arrow_file import arrow_file
from probe.read.inside import RefusedFileError, file_names, open_inside, rank_folders
from probe.read.problem import Problem
from probe.read.sealed import READING_ERRORS
from probe.read.trace import Trace
from probe.read.trace_columns import TraceColumns
from probe.read.trace_file import MEMORY_LIMIT_BYTES, read_trace_from
from probe.read.trace_table import from_table, trace_schema
from probe.schema.layout import rank_dir, step_of_trace, trace_parquet_name
from probe.schema.trace import TraceFacts
from probe.schema.vocabulary import Severity


@dataclass(frozen=True, kw_only=True)
class TraceFile:
    """One profiled window of one rank."""

    rank: int
    step: int
    """First step of the window."""
    name: str
    """Name of the file that is read for it, in the rank's folder."""
    distilled: bool
    size_bytes: int


def find_traces(root: Path) -> list[TraceFile]:
    """All windows of a run, by rank and step; of two files for one, the distilled."""
    found: dict[tuple[int, int], TraceFile] = {}
    for rank in rank_folders(root)[0]:
        for name in file_names(root, rank_dir(rank)):
            step = step_of_trace(name)
            if step is None:
                continue
            distilled = name == trace_parquet_name(step)
            if distilled or (rank, step) not in found:
                found[rank, step] = _file(root, rank, step, name)
    return [found[key] for key in sorted(found)]


def check_traces(root: Path, ranks: Iterable[int]) -> list[Problem]:
    """What is wrong with the windows; reads every file, the profiler's beside the distilled too."""
    problems: list[Problem] = []
    for rank in ranks:
        names: list[str] = []
        with contextlib.suppress(FileNotFoundError):  # Removed meanwhile: the tables say so.
            names = file_names(root, rank_dir(rank))
        for name in names:
            step = step_of_trace(name)
            if step is not None:
                problems += load_trace(root, _file(root, rank, step, name)).problems
    return problems


def _file(root: Path, rank: int, step: int, name: str) -> TraceFile:
    size_bytes = 0
    with contextlib.suppress(OSError):
        size_bytes = (root / rank_dir(rank) / name).lstat().st_size
    return TraceFile(
        rank=rank,
        step=step,
        name=name,
        distilled=name == trace_parquet_name(step),
        size_bytes=size_bytes,
    )


def load_trace(root: Path, chosen: TraceFile, *, limit_bytes: int = MEMORY_LIMIT_BYTES) -> Trace:
    """One window; what cannot be read is an empty trace with its problem."""
    label = f"{rank_dir(chosen.rank)}/{chosen.name}"
    try:
        with open_inside(root, rank_dir(chosen.rank), chosen.name) as opened:
            if not chosen.distilled:
                return read_trace_from(opened, name=label, limit_bytes=limit_bytes)
            file = pq.ParquetFile(arrow_file(opened), page_checksum_verification=True)
            wanted = [name for name in trace_schema().names if name in file.schema_arrow.names]
            if _needed_bytes(file.metadata, len(wanted)) > limit_bytes:
                return _nothing(label, f"has {file.metadata.num_rows:,} events, too many to hold")
            return from_table(file.read(columns=wanted))
    except RefusedFileError as refused:
        return _empty((refused.problem,))
    except READING_ERRORS as error:
        return _nothing(label, f"cannot be read ({type(error).__name__}: {str(error)[:120]})")


def _needed_bytes(metadata: pq.FileMetaData, columns: int) -> int:
    """Eight bytes for each row and column, once texts are codes, and the texts themselves."""
    groups = range(metadata.num_row_groups)
    declared = sum(metadata.row_group(group).total_byte_size for group in groups)
    return int(max(metadata.num_rows, 0) * 8 * columns + max(declared, 0))


def _nothing(label: str, what: str) -> Trace:
    hint = "Remove it to have the profiler's JSON read in its place, if that is still there."
    return _empty((Problem(severity=Severity.ERROR, file=label, what=what, hint=hint),))


def _empty(problems: tuple[Problem, ...]) -> Trace:
    return Trace(
        facts=TraceFacts(),
        events=TraceColumns().events(base_ns=0),
        names=(),
        lanes=(),
        signatures=(),
        collectives=(),
        problems=problems,
    )
