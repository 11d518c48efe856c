"""Reading a sealed table: one Parquet file for all ranks, lowest first.

A few bytes of Parquet can stand for any number of values, so what a table would take is added up
before it is decoded. Words stay numbers with a dictionary, and are held to what they would take
spelled out, since somebody may do that.
"""

import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from probe.read.arrow_file import arrow_file
from probe.read.columns import RANK, arrow_schema, default_of
from probe.read.footer import RowGroup, read_footer
from probe.read.inside import open_inside
from probe.read.notes import noted_problems, noted_sources
from probe.read.problem import Problem
from probe.read.words import WORDS, number_words, repeat_word, spelled_bytes
from probe.schema.layout import TABLES_DIR
from probe.schema.tables import Table

_ENCODINGS = {0, 2, 3, 4, 5, 8}
"""Plain, by runs, by dictionary and by difference: a value takes what the footer says, or 8 bytes.

In the others a few bytes stand for long words that are spelled out one by one.
"""

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
        footer = read_footer(opened)
        groups = [n for n, group in enumerate(footer) if ranks is None or _may_hold(group, ranks)]
        _hold_to(limit_bytes, sum(_needed_bytes(footer[group], columns) for group in groups))
        file = pq.ParquetFile(
            arrow_file(opened),
            page_checksum_verification=True,
            read_dictionary=[
                name for name in columns if arrow_schema(table).field(name).type == WORDS
            ],
        )
        present = [name for name in columns if name in file.schema_arrow.names]
        found = file.read_row_groups(groups, columns=present, use_threads=True)
        _hold_to(limit_bytes, spelled_bytes(found))
        if ranks is not None and RANK in present:
            # A row group holds whole ranks, as many as make it worth its place in the footer.
            found = _only_ranks(found, ranks)
        metadata = file.metadata.metadata or {}
    return Sealed(
        rows=_in_shape(found, table, columns),
        problems=noted_problems(metadata, ranks),
        source_bytes=noted_sources(metadata),
    )


def identity_of(root: Path, table: Table) -> tuple[int, int] | None:
    """What tells one sealed file from the one that replaces it; None where there is none."""
    try:
        facts = os.stat(root / TABLES_DIR / table.sealed_name, follow_symlinks=False)
    except OSError:
        return None
    return facts.st_ino, facts.st_mtime_ns


def _hold_to(limit_bytes: int, needed_bytes: int) -> None:
    if needed_bytes > limit_bytes:
        raise TooLargeError(f"{needed_bytes} bytes would be needed")


def _may_hold(group: RowGroup, ranks: Collection[int]) -> bool:
    """Whether a row group can hold rows of these ranks, as far as its bounds tell."""
    column = next((item for item in group.columns if item.name == RANK), None)
    if column is None or column.lowest is None or column.highest is None:
        return True
    lowest = int.from_bytes(column.lowest, "little", signed=True)
    highest = int.from_bytes(column.highest, "little", signed=True)
    return any(lowest <= rank <= highest for rank in ranks)


def _needed_bytes(group: RowGroup, columns: Collection[str]) -> int:
    """What the columns of a row group take at most once decoded, words as dictionaries."""
    if group.rows < 0:
        raise ValueError(f"a row group has {group.rows} rows")
    needed = 0
    for item in group.columns:
        if item.name in columns:
            if not _ENCODINGS.issuperset(item.encodings):
                raise ValueError(f"column {item.name} is encoded in a way that is not ours")
            needed += max(item.decoded_bytes, 8 * item.values)
    # An absent column is filled with its default, and one that needs less than its rows do lies.
    return max(needed, 8 * group.rows * len(columns))


def _only_ranks(found: pa.Table, ranks: Collection[int]) -> pa.Table:
    keep = pa.compute.is_in(found[RANK], value_set=pa.array(sorted(ranks), found[RANK].type))
    return found.filter(keep)


def _in_shape(found: pa.Table, table: Table, columns: Sequence[str]) -> pa.Table:
    """The columns asked for, in order and typed as the schema says; absent ones hold defaults."""
    schema = arrow_schema(table)
    arrays = []
    for name in columns:
        kind = schema.field(name).type
        if name not in found.column_names:
            arrays.append(_default_column(default_of(table, name), kind, found.num_rows))
        elif kind == WORDS:
            arrays.append(number_words(found[name]))
        else:
            arrays.append(found[name].cast(kind))
    return pa.table(arrays, schema=pa.schema([schema.field(name) for name in columns]))


def _default_column(default: Any, kind: pa.DataType, count: int) -> pa.ChunkedArray:
    if kind == WORDS:
        return repeat_word(default, count)
    return pa.chunked_array([pa.repeat(pa.scalar(default, kind), count)])
