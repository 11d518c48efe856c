"""One table of a run as Arrow columns, wherever its rows lie.

Sealed rows come from Parquet, all others from JSONL up to the last newline. Both can be there: a
seal that was interrupted leaves JSONL behind, and a rank may have been copied after the sealing.
The sealed file says how many bytes of each rank it holds; only what lies beyond is read as JSONL.
A seal that goes on at this very moment moves rows from there to here: then the load begins anew.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa

from probe.errors import UsageError
from probe.read.attempts import (
    RULED_BY,
    STEP,
    begins_of,
    counted,
    has_step,
    restarted_ranks,
    taken_back,
)
from probe.read.columns import RANK, arrow_schema
from probe.read.inside import RefusedFileError, listed_ranks
from probe.read.problem import Problem
from probe.read.sealed import READING_ERRORS, Sealed, TooLargeError, identity_of, read_sealed
from probe.read.unsealed import MEMORY_LIMIT_BYTES, load_rank_lines, too_large
from probe.read.words import join, spell_out
from probe.schema.layout import TABLES_DIR
from probe.schema.tables import STEPS, Table
from probe.schema.vocabulary import Severity

_ATTEMPTS = 3
"""Loads of one table that a seal may overtake; it replaces a table once."""


@dataclass(frozen=True, kw_only=True)
class Loaded:
    """Rows of one table, sorted by rank and step, and what was wrong on the way."""

    table: pa.Table
    problems: tuple[Problem, ...]
    source_bytes: dict[int, int]
    """How far into each rank's file the rows reach."""

    def frame(self) -> pd.DataFrame:
        """The rows as a data frame."""
        frame: pd.DataFrame = spell_out(self.table).to_pandas()
        return frame


def load_table(
    root: Path,
    table: Table,
    *,
    columns: Sequence[str] | None = None,
    ranks: Collection[int] | None = None,
    limit_bytes: int = MEMORY_LIMIT_BYTES,
    restarted: Collection[int] = (),
    every_attempt: bool = False,
) -> Loaded:
    """The chosen columns and ranks of a table; all of them by default.

    Of steps that were done again after a restart the last attempt is there, or every one.
    `restarted` names ranks that may have rows of attempts which this table does not show.
    """
    chosen = checked_columns(table, columns)

    def load_once() -> Loaded:
        loaded = _load_once(root, table, chosen, ranks, limit_bytes)
        if not every_attempt and has_step(table):
            loaded = _without_taken_back(root, table, loaded, restarted, limit_bytes)
        return replace(loaded, table=loaded.table.select(list(chosen)))

    for _ in range(_ATTEMPTS - 1):
        before = identity_of(root, table)
        loaded = load_once()
        if identity_of(root, table) == before:
            return loaded
    return load_once()


def checked_columns(table: Table, columns: Sequence[str] | None) -> Sequence[str]:
    """The columns wanted, all of them by default; UsageError if the table lacks one."""
    known: list[str] = arrow_schema(table).names
    if columns is None:
        return known
    if unknown := [name for name in columns if name not in known]:
        raise UsageError(
            f"Table {table.name} has no column {', '.join(map(repr, unknown))}; "
            f"it has {', '.join(known)}."
        )
    return columns


def _load_once(
    root: Path,
    table: Table,
    columns: Sequence[str],
    ranks: Collection[int] | None,
    limit_bytes: int,
) -> Loaded:
    # Sorting and the rule for restarts need them, wanted or not.
    by_step = has_step(table)
    reading = list(dict.fromkeys([*columns, *(RULED_BY if by_step else [RANK])]))
    sealed, problems = _load_sealed(
        root, table, columns=reading, ranks=ranks, limit_bytes=limit_bytes
    )
    parts = [sealed.rows]
    source_bytes = dict(sealed.source_bytes)
    held_bytes = sealed.rows.nbytes
    if ranks is None:
        wanted, found = listed_ranks(root)
        problems += found
    else:
        # Not looked for: a caller that goes rank by rank would list thousands, thousands of times.
        wanted = tuple(sorted(set(ranks)))
    for rank in wanted:
        try:
            lines = load_rank_lines(
                root,
                table,
                rank,
                columns=reading,
                offset=source_bytes.get(rank, 0),
                limit_bytes=limit_bytes - held_bytes,
            )
        except FileNotFoundError:
            continue
        parts.append(lines.rows)
        held_bytes += lines.held_bytes
        problems += lines.problems
        source_bytes[rank] = lines.end_offset
    together = join([part for part in parts if part.num_rows] or parts[:1])
    return Loaded(
        table=_sorted(together, by_step=by_step),
        problems=tuple(dict.fromkeys(problems)),
        source_bytes=source_bytes,
    )


def _without_taken_back(
    root: Path, table: Table, loaded: Loaded, restarted: Collection[int], limit_bytes: int
) -> Loaded:
    """The rows that count, and for the steps a word on the others."""
    ranks = restarted_ranks(loaded.table) | set(restarted)
    if not ranks:
        return loaded
    steps = loaded.table
    if table is not STEPS:
        steps = load_table(
            root,
            STEPS,
            columns=RULED_BY,
            ranks=ranks,
            limit_bytes=limit_bytes,
            every_attempt=True,
        ).table
    left = counted(loaded.table, begins_of(steps))
    words = taken_back(loaded.table, left) if table is STEPS else []
    return replace(loaded, table=left, problems=(*loaded.problems, *words))


def _load_sealed(
    root: Path,
    table: Table,
    *,
    columns: Sequence[str],
    ranks: Collection[int] | None,
    limit_bytes: int,
) -> tuple[Sealed, list[Problem]]:
    """The sealed part of a table, empty where there is none, and what was wrong with it."""
    schema = pa.schema([arrow_schema(table).field(name) for name in columns])
    nothing = Sealed(rows=schema.empty_table(), problems=[], source_bytes={})
    try:
        sealed = read_sealed(root, table, columns=columns, ranks=ranks, limit_bytes=limit_bytes)
    except FileNotFoundError:
        return nothing, []
    except RefusedFileError as refused:
        return nothing, [refused.problem]
    except TooLargeError:
        return nothing, [too_large(f"{TABLES_DIR}/{table.sealed_name}", limit_bytes)]
    except READING_ERRORS as error:
        return nothing, [_unreadable_seal(table, error)]
    return sealed, list(sealed.problems)


def _sorted(rows: pa.Table, *, by_step: bool) -> pa.Table:
    """Rows by rank and step; those of equal step keep the order in which they were written."""
    if rows.num_rows < 2:
        return rows
    ranks = rows[RANK].to_numpy()
    steps = rows[STEP].to_numpy() if by_step else np.zeros(len(ranks), np.int64)
    same_rank = ranks[1:] == ranks[:-1]
    in_order = (ranks[1:] > ranks[:-1]) | (same_rank & (steps[1:] >= steps[:-1]))
    if in_order.all():
        return rows
    return rows.take(pa.array(np.lexsort((steps, ranks))))


def _unreadable_seal(table: Table, error: BaseException) -> Problem:
    return Problem(
        severity=Severity.ERROR,
        file=f"{TABLES_DIR}/{table.sealed_name}",
        what=f"is no readable Parquet file ({type(error).__name__}: {str(error)[:120]})",
        hint="Rows that are still in JSONL are read; restore the file from a copy.",
    )
