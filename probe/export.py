"""Copying the tables of a run into files for other programs: one file a table, for all ranks.

One rank is in memory at a time. Each file is written beside its place and renamed into it, so that
what is there is whole. Parquet and JSONL hold the exact values; in JSONL each line is the writer's
own with the rank in front. CSV holds nan and the infinities as words, null as nothing, a list as
JSON; and because spreadsheets run what begins like a formula, while names come from strangers, a
text that begins with one of `FORMULA_STARTS` gets an apostrophe in front.
"""

import os
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from probe.errors import FormatVersionError, ProbeError, UsageError
from probe.read.columns import RANK, arrow_schema
from probe.read.problem import Problem
from probe.read.run import Run
from probe.read.unsealed import TOO_LARGE
from probe.read.words import plain_schema, spell_out
from probe.schema.codec import with_words
from probe.schema.layout import TEMPORARY_SUFFIX
from probe.schema.tables import TABLES, Table

FORMULA_STARTS = "=+-@\t\r\n"
ROWS_AT_ONCE = 1 << 16


class ExportFormat(StrEnum):
    """The kinds of files that tables are exported to."""

    CSV = "csv"
    PARQUET = "parquet"
    JSONL = "jsonl"


@dataclass(frozen=True, kw_only=True)
class ExportedTable:
    """One file that was written."""

    table: Table
    path: Path
    rows: int
    size_bytes: int
    problems: tuple[Problem, ...]
    """What was wrong with the rows on the way; those that could be read are in the file."""


class _Sink(Protocol):
    """Takes the rows of one table, part by part, into an open file."""

    def write(self, rows: pa.Table) -> None: ...
    def close(self) -> None: ...


def export_run(
    run: Run,
    folder: Path,
    *,
    to: ExportFormat,
    tables: Sequence[Table] = (),
    ranks: Collection[int] = (),
    overwrite: bool = False,
    on_table: Callable[[Table], None] = lambda table: None,
) -> list[ExportedTable]:
    """Write each table into `folder`; of those that were not asked for by name the empty ones not.

    No tables, or no ranks, means all of them.
    """
    if not run.readable:
        raise FormatVersionError(
            f"{run.path} was written in format {run.manifest.format_version!r}, which this "
            "version cannot export; use the version of ZeroProbe that recorded it."
        )
    if unknown := sorted(set(ranks) - set(run.ranks)):
        raise UsageError(
            f"{run.path} has no rank {', '.join(map(str, unknown))}; it has {_named(run.ranks)}."
        )
    targets = {table: folder / f"{table.name}.{to}" for table in tables or TABLES}
    present = [path for path in targets.values() if os.path.lexists(path)]
    if present and not overwrite:
        raise UsageError(
            f"{present[0]} is there already; choose another folder, or replace it with --force."
        )
    exported = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for table, path in targets.items():
            on_table(table)
            written = _export_table(run, table, path, to=to, ranks=ranks or run.ranks)
            if written.rows or tables:
                exported.append(written)
            else:
                path.unlink()
    except OSError as error:
        raise ProbeError(
            f"Cannot export into {folder} ({error.strerror or error}); "
            "choose another folder with --output."
        ) from error
    return exported


def _export_table(
    run: Run, table: Table, path: Path, *, to: ExportFormat, ranks: Collection[int]
) -> ExportedTable:
    count = 0
    problems: list[Problem] = []
    with _replacing(path) as file:
        sink = _SINKS[to](file, plain_schema(arrow_schema(table)))
        for rank in sorted(ranks):
            loaded = run.table(table, ranks=[rank])
            if cut := [item for item in loaded.problems if item.what.startswith(TOO_LARGE)]:
                raise ProbeError(
                    f"{run.path / cut[0].file} {cut[0].what}; leave this table or rank {rank} out "
                    "with --table or --rank."
                )
            problems += loaded.problems
            count += loaded.table.num_rows
            for start in range(0, loaded.table.num_rows, ROWS_AT_ONCE):
                sink.write(spell_out(loaded.table.slice(start, ROWS_AT_ONCE)))
        sink.close()
    return ExportedTable(
        table=table,
        path=path,
        rows=count,
        size_bytes=path.stat().st_size,
        problems=tuple(dict.fromkeys(problems)),
    )


@contextmanager
def _replacing(path: Path) -> Iterator[BinaryIO]:
    """A file beside the path that takes its place once it is whole."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}{TEMPORARY_SUFFIX}")
    try:
        with temporary.open("xb") as file:
            yield file
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


class _ParquetSink:
    """Exact values, one row group a part."""

    def __init__(self, file: BinaryIO, schema: pa.Schema) -> None:
        self._writer = pq.ParquetWriter(file, schema, compression="zstd")

    def write(self, rows: pa.Table) -> None:
        self._writer.write_table(rows)

    def close(self) -> None:
        self._writer.close()


class _CsvSink:
    """Plain cells; see the head of this file for what becomes of texts and lists."""

    def __init__(self, file: BinaryIO, schema: pa.Schema) -> None:
        fields = [
            pa.field(field.name, pa.string()) if pa.types.is_list(field.type) else field
            for field in schema
        ]
        self._schema = pa.schema(fields)
        self._writer = pa.csv.CSVWriter(file, self._schema)

    def write(self, rows: pa.Table) -> None:
        self._writer.write_table(
            pa.table([_cells(column) for column in rows.columns], schema=self._schema)
        )

    def close(self) -> None:
        self._writer.close()


def _cells(column: pa.ChunkedArray) -> pa.ChunkedArray | pa.Array:
    if pa.types.is_list(column.type):
        lists = column.to_pylist()
        texts = [None if item is None else msgspec.json.encode(item).decode() for item in lists]
        return pa.array(texts, pa.string())
    if pa.types.is_string(column.type):
        return pc.replace_substring_regex(column, rf"\A([{FORMULA_STARTS}])", r"'\1")
    return column


class _JsonlSink:
    """Lines as the ranks write them, with the rank in front."""

    def __init__(self, file: BinaryIO, schema: pa.Schema) -> None:
        self._file = file
        self._columns = [RANK, *(name for name in schema.names if name != RANK)]
        self._encoder = msgspec.json.Encoder()

    def write(self, rows: pa.Table) -> None:
        columns = [_values(rows[name]) for name in self._columns]
        lines = (dict(zip(self._columns, row, strict=True)) for row in zip(*columns, strict=True))
        self._file.write(self._encoder.encode_lines(lines))

    def close(self) -> None:
        self._file.flush()


def _values(column: pa.ChunkedArray) -> list[Any]:
    """Plain values, with words for what JSON cannot say."""
    values: list[Any] = column.to_pylist()
    if pa.types.is_floating(column.type) and not pc.all(pc.is_finite(column)).as_py():
        return [with_words(value) for value in values]
    return values


_SINKS: dict[ExportFormat, Callable[[BinaryIO, pa.Schema], _Sink]] = {
    ExportFormat.CSV: _CsvSink,
    ExportFormat.PARQUET: _ParquetSink,
    ExportFormat.JSONL: _JsonlSink,
}


def _named(ranks: Sequence[int]) -> str:
    """Ranks as a sentence names them."""
    if not ranks:
        return "none"
    whole = ranks == tuple(range(ranks[0], ranks[-1] + 1))
    if whole and len(ranks) > 2:
        return f"{ranks[0]} to {ranks[-1]}"
    return ", ".join(map(str, ranks))
