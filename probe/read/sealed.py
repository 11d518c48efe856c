"""Reading a sealed table: one Parquet file for all ranks, a run of row groups for each rank."""

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from probe.read.columns import RANK, arrow_schema, default_of
from probe.read.inside import open_inside
from probe.read.problem import Problem
from probe.schema.layout import TABLES_DIR
from probe.schema.tables import Table
from probe.schema.vocabulary import Severity

PROBLEMS_KEY = b"zeroprobe.problems"
SOURCES_KEY = b"zeroprobe.sources"

READING_ERRORS = (
    pa.ArrowException,
    OSError,
    ValueError,
    KeyError,
    TypeError,
    OverflowError,
    MemoryError,
)
"""What a Parquet file from a stranger can raise."""


@dataclass(frozen=True, kw_only=True)
class Sealed:
    """What was read of a sealed table."""

    rows: pa.Table
    problems: list[Problem]
    """Those that the ranks' files had when they were sealed."""
    source_bytes: dict[int, int]
    """How many bytes of each rank's file went into it."""


class TooLargeError(Exception):
    """More would have to be held in memory than the reader is allowed to."""


def read_sealed(
    root: Path,
    table: Table,
    *,
    columns: Sequence[str],
    ranks: Collection[int] | None,
    limit_bytes: int,
) -> Sealed:
    """Columns of a sealed table; raises FileNotFoundError, RefusedFileError or READING_ERRORS."""
    with open_inside(root, TABLES_DIR, table.sealed_name) as opened:
        file = pq.ParquetFile(pa.PythonFile(opened, mode="r"), page_checksum_verification=True)
        present = [name for name in columns if name in file.schema_arrow.names]
        groups = _groups_of(file.metadata, ranks)
        declared = sum(_group_bytes(file.metadata, group, present) for group in groups)
        rows = sum(file.metadata.row_group(group).num_rows for group in groups)
        if max(declared, rows * 8 * len(columns)) > limit_bytes:
            raise TooLargeError(f"{rows} rows of {len(columns)} columns")
        found = file.read_row_groups(groups, columns=present, use_threads=True)
        if ranks is not None and RANK in present:
            # Row groups hold one rank each; this only matters for files of other writers.
            found = _only_ranks(found, ranks)
        metadata = file.metadata.metadata or {}
    return Sealed(
        rows=_in_shape(found, table, columns),
        problems=_noted_problems(metadata),
        source_bytes=_source_bytes(metadata),
    )


def _groups_of(metadata: Any, ranks: Collection[int] | None) -> list[int]:
    """The row groups that can hold rows of these ranks."""
    groups = range(metadata.num_row_groups)
    if ranks is None:
        return list(groups)
    wanted = set(ranks)
    return [group for group in groups if _may_hold(metadata.row_group(group), wanted)]


def _may_hold(row_group: Any, ranks: Collection[int]) -> bool:
    """Whether a row group can hold rows of these ranks, as far as its statistics tell."""
    column = row_group.column(0)
    statistics = column.statistics if column.path_in_schema == RANK else None
    if statistics is None or not statistics.has_min_max or statistics.min != statistics.max:
        return True
    return statistics.min in ranks


def _group_bytes(metadata: Any, group: int, columns: Collection[str]) -> int:
    row_group = metadata.row_group(group)
    return sum(
        row_group.column(index).total_uncompressed_size
        for index in range(row_group.num_columns)
        if row_group.column(index).path_in_schema.split(".")[0] in columns
    )


def _only_ranks(found: pa.Table, ranks: Collection[int]) -> pa.Table:
    keep = pa.compute.is_in(found[RANK], value_set=pa.array(sorted(ranks), found[RANK].type))
    return found.filter(keep)


def _in_shape(found: pa.Table, table: Table, columns: Sequence[str]) -> pa.Table:
    """The columns asked for, in order and typed as the schema says; absent ones hold defaults."""
    schema = arrow_schema(table)
    arrays = []
    for name in columns:
        kind = schema.field(name).type
        if name in found.column_names:
            arrays.append(found[name].cast(kind))
        else:
            default = pa.scalar(default_of(table, name), kind)
            arrays.append(pa.chunked_array([pa.repeat(default, found.num_rows)]))
    return pa.table(arrays, schema=pa.schema([schema.field(name) for name in columns]))


def _noted_problems(metadata: dict[bytes, bytes]) -> list[Problem]:
    """The problems that the JSONL files had when they were sealed."""
    try:
        noted = json.loads(metadata.get(PROBLEMS_KEY, b"[]"))
        return [
            Problem(
                severity=Severity(item["severity"]),
                file=str(item["file"]),
                line=item["line"] if isinstance(item["line"], int) else None,
                what=str(item["what"]),
                hint=str(item["hint"]),
            )
            for item in noted
        ]
    except (ValueError, TypeError, KeyError):
        return []


def _source_bytes(metadata: dict[bytes, bytes]) -> dict[int, int]:
    try:
        plain = json.loads(metadata.get(SOURCES_KEY, b"{}"))
        return {int(rank): int(size) for rank, size in plain.items()}
    except (ValueError, TypeError, AttributeError):
        return {}
