"""Sealing a run: one Parquet file a table for all ranks, in place of the ranks' JSONL.

Safe to kill at any point and to repeat. Each table is written beside its place, read back, compared
value by value with what the JSONL gave, and only then renamed into place; JSONL goes last, when
every table stands. A file with lines that were no rows is kept as `*.damaged`: nothing is thrown
away that somebody might still mend.
"""

import fcntl
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from probe.errors import FormatVersionError, ProbeError, RunStateError
from probe.read.columns import RANK, arrow_schema
from probe.read.digest import digest
from probe.read.inside import RefusedFileError
from probe.read.loading import load_table
from probe.read.notes import notes_of
from probe.read.problem import Problem
from probe.read.run import Run, load_run
from probe.read.sealed import READING_ERRORS, read_sealed
from probe.read.unsealed import load_rank_lines
from probe.read.words import join, plain_schema, spell_out
from probe.schema.layout import DAMAGED_SUFFIX, TABLES_DIR, TEMPORARY_SUFFIX, rank_dir
from probe.schema.tables import TABLES, Table
from probe.schema.vocabulary import RunStatus, Severity

MOST_ROWS_PER_GROUP = 1 << 20
FEWEST_ROWS_PER_GROUP = 1 << 16
"""Ranks share a row group up to here: each group costs the reader an entry for every column."""
NO_LIMIT_BYTES = 1 << 62
UNFINISHED = (RunStatus.RUNNING, RunStatus.STALLED)


@dataclass(frozen=True, kw_only=True)
class SealedTable:
    """What sealing made of one table."""

    table: Table
    rows: int
    jsonl_bytes: int
    parquet_bytes: int


@dataclass(frozen=True, kw_only=True)
class SealReport:
    """What sealing made of a run."""

    tables: tuple[SealedTable, ...]
    """Tables that were written now; none if the run was sealed already."""
    kept: tuple[str, ...]
    """Files that were put aside because they hold lines that are no rows."""


def seal_run(
    path: str | Path,
    *,
    even_if_running: bool = False,
    on_table: Callable[[Table], None] = lambda table: None,
) -> SealReport:
    """Seal a run that has ended; `on_table` is told of each table before it is written."""
    run = load_run(path)
    if not run.readable:
        raise FormatVersionError(
            f"{run.path} was written in format {run.manifest.format_version!r}, which this "
            "version cannot seal; use the version of ZeroProbe that recorded it."
        )
    if run.verdict.status in UNFINISHED and not even_if_running:
        raise RunStateError(
            f"{run.path} is {run.verdict.status} ({run.verdict.why}) and would stop recording; "
            "wait for its end, or seal it all the same with --force."
        )
    if not _has_lines(run):
        # Nothing to do, and nothing to begin: a folder of tables would stop a run that starts now.
        return SealReport(tables=(), kept=())
    try:
        (run.path / TABLES_DIR).mkdir(exist_ok=True)
        with _only_one(run.path / TABLES_DIR) as folder:
            _remove_leftovers(run)
            sealed = []
            for table in TABLES:
                if _uncovered_ranks(run, table):
                    on_table(table)
                    sealed.append(_write_table(run, table))
            with suppress(OSError):  # Some network file systems cannot, and need not.
                os.fsync(folder)
            kept = [name for table in TABLES for name in _remove_lines(run, table)]
    except OSError as error:
        raise ProbeError(
            f"{run.path} could not be sealed ({error.strerror or error}); nothing was lost, "
            "and `probe seal` goes on where it stopped."
        ) from error
    return SealReport(tables=tuple(sealed), kept=tuple(kept))


def _has_lines(run: Run) -> bool:
    """Whether any rank has left lines that are not sealed, or a sealed run has some again."""
    return any(
        os.path.lexists(run.path / rank_dir(rank) / table.file_name)
        for rank in run.ranks
        for table in TABLES
    )


def _remove_leftovers(run: Run) -> None:
    """Take away what a seal that was killed had begun to write."""
    for path in (run.path / TABLES_DIR).glob(f"*{TEMPORARY_SUFFIX}"):
        path.unlink()


def _uncovered_ranks(run: Run, table: Table) -> list[int]:
    """Ranks that have whole lines which the sealed table does not hold yet."""
    sealed_bytes = _sealed_bytes(run, table)
    uncovered = []
    for rank in run.ranks:
        offset = sealed_bytes.get(rank, 0)
        with suppress(FileNotFoundError):
            lines = load_rank_lines(run.path, table, rank, columns=[RANK], offset=offset)
            if lines.end_offset > offset or rank not in sealed_bytes:
                uncovered.append(rank)
    return uncovered


def _sealed_bytes(run: Run, table: Table) -> dict[int, int]:
    """How much of each rank's file the sealed table holds; nothing where there is none."""
    try:
        found = read_sealed(run.path, table, columns=[], ranks=[], limit_bytes=NO_LIMIT_BYTES)
    except (RefusedFileError, *READING_ERRORS):
        return {}
    return found.source_bytes


def _write_table(run: Run, table: Table) -> SealedTable:
    """Write one table for all ranks, verify it, and put it in its place."""
    target = run.path / TABLES_DIR / table.sealed_name
    temporary = target.with_name(f"{target.name}.{os.getpid()}{TEMPORARY_SUFFIX}")
    before = f"{TABLES_DIR}/{table.sealed_name}"
    rows = 0
    problems: list[Problem] = []
    sources: dict[int, int] = {}
    digests: list[bytes] = []
    try:
        # Exclusively, so that no link that lies there leads out of the run.
        with temporary.open("xb") as file, _parquet_writer(file, table) as writer:
            ranks = sorted({*run.ranks, *_sealed_bytes(run, table)})

            def rows_by_rank() -> Iterator[pa.Table]:
                for rank in ranks:
                    loaded = load_table(
                        run.path,
                        table,
                        ranks=[rank],
                        limit_bytes=NO_LIMIT_BYTES,
                        every_attempt=True,
                    )
                    problems.extend(loaded.problems)
                    if rank in loaded.source_bytes:
                        sources[rank] = loaded.source_bytes[rank]
                    yield loaded.table

            for group in _row_groups(rows_by_rank()):
                writer.write_table(group, row_group_size=MOST_ROWS_PER_GROUP)
                digests.append(digest(group))
                rows += group.num_rows
            noted = [item for item in dict.fromkeys(problems) if item.file != before]
            writer.add_key_value_metadata(notes_of(sources, noted))
        _verify(temporary, digests)
        with temporary.open("rb") as written:
            os.fsync(written.fileno())
        if len(noted) < len(set(problems)):
            # Rows in the sealed file of before could not be read: the lines there are make a new
            # one, and the old bytes stay for a repair.
            _put_aside(target)
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)
    return SealedTable(
        table=table,
        rows=rows,
        jsonl_bytes=sum(sources.values()),
        parquet_bytes=target.stat().st_size,
    )


def _row_groups(parts: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Rows as they are written at once: few ranks are in memory together, or a part of one."""
    held: list[pa.Table] = []
    for part in parts:
        held.append(part)
        if sum(item.num_rows for item in held) >= FEWEST_ROWS_PER_GROUP:
            yield from _cut(held)
            held.clear()
    if held:
        yield from _cut(held)


def _cut(held: Sequence[pa.Table]) -> Iterator[pa.Table]:
    rows = spell_out(join(held))
    for start in range(0, rows.num_rows, MOST_ROWS_PER_GROUP):
        yield rows.slice(start, MOST_ROWS_PER_GROUP)


def _parquet_writer(file: BinaryIO, table: Table) -> pq.ParquetWriter:
    """Words by dictionary, whole numbers by difference: what the columns of a run consist of."""
    schema = plain_schema(arrow_schema(table))
    words = [field.name for field in schema if field.type == pa.string()]
    numbers = [field.name for field in schema if field.type in (pa.int64(), pa.int32())]
    return pq.ParquetWriter(
        file,
        schema,
        compression="zstd",
        use_dictionary=words,
        column_encoding=dict.fromkeys(numbers, "DELTA_BINARY_PACKED"),
        write_page_checksum=True,
    )


def _verify(written: Path, digests: Sequence[bytes]) -> None:
    """Read the file back and compare each row group with what was meant."""
    try:
        file = pq.ParquetFile(written, page_checksum_verification=True)
        found = [digest(file.read_row_group(group)) for group in range(file.num_row_groups)]
    except READING_ERRORS:
        found = []
    if found != list(digests):
        raise ProbeError(
            f"{written} did not read back as it was written; the JSONL is untouched. "
            "The disk or the memory of this machine is failing."
        )


def _remove_lines(run: Run, table: Table) -> list[str]:
    """Take away the JSONL that a sealed table holds; names the files put aside instead."""
    uncovered = _uncovered_ranks(run, table)
    damaged = _damaged_files(run, table)
    kept = []
    for rank in run.ranks:
        file = f"{rank_dir(rank)}/{table.file_name}"
        path = run.path / file
        if rank in uncovered or path.is_symlink() or not path.is_file():
            continue
        if file in damaged:
            kept.append(f"{rank_dir(rank)}/{_put_aside(path)}")
        else:
            path.unlink()
    return kept


def _put_aside(path: Path) -> str:
    """Rename a file to what says that it is damaged, beside those put aside before; its name."""
    aside = path.with_name(path.name + DAMAGED_SUFFIX)
    number = 2
    while os.path.lexists(aside):
        aside = path.with_name(f"{path.name}.{number}{DAMAGED_SUFFIX}")
        number += 1
    path.replace(aside)
    return aside.name


def _damaged_files(run: Run, table: Table) -> set[str]:
    """Files of which the sealed table notes that lines were no rows."""
    try:
        found = read_sealed(run.path, table, columns=[], ranks=None, limit_bytes=NO_LIMIT_BYTES)
    except (RefusedFileError, *READING_ERRORS):
        return set()
    return {item.file for item in found.problems if item.severity is Severity.ERROR}


@contextmanager
def _only_one(folder: Path) -> Iterator[int]:
    """Keep a second seal of the same run out for as long as this one works in the folder."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RunStateError(f"{folder.parent} is being sealed by another process.") from None
        except OSError:
            pass  # A file system without locks; the check before each removal still holds.
        yield descriptor
    finally:
        os.close(descriptor)
