"""Following a live run: each poll parses only what was written since the last one.

The place reached is kept as a byte offset a rank. A file that shrank or was replaced (a run that
was copied anew) is read from its start again, and the news say so.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from os import fstat
from pathlib import Path

import pyarrow as pa

from probe.read.columns import arrow_schema
from probe.read.inside import RefusedFileError, listed_ranks, open_inside
from probe.read.loading import checked_columns
from probe.read.problem import Problem
from probe.read.sealed import identity_of
from probe.read.unsealed import MEMORY_LIMIT_BYTES, load_rank_lines
from probe.schema.layout import rank_dir
from probe.schema.tables import Table


@dataclass(frozen=True, kw_only=True)
class News:
    """What came since the last poll, rank by rank in the order in which it was written."""

    rows: pa.Table
    problems: tuple[Problem, ...]
    from_start: bool
    """What was polled before is void: a file was replaced or cut."""
    sealed: bool
    """The run is sealed; nothing more will come, and a load gives everything."""


@dataclass(kw_only=True)
class _Place:
    """How far one rank's file was read."""

    inode: int
    offset: int = 0
    next_line: int = 1


class Tail:
    """A place in one table of a live run."""

    def __init__(
        self,
        root: Path,
        table: Table,
        *,
        columns: Sequence[str] | None = None,
        limit_bytes: int = MEMORY_LIMIT_BYTES,
    ) -> None:
        self._root = root
        self._table = table
        self._columns = list(checked_columns(table, columns))
        self._limit_bytes = limit_bytes
        self._places: dict[int, _Place] = {}

    def poll(self) -> News:
        """The rows that are new."""
        sealed = identity_of(self._root, self._table) is not None
        parts: list[pa.Table] = []
        ranks, problems = listed_ranks(self._root)
        from_start = any(self._was_replaced(rank) for rank in ranks)
        if from_start:
            self._places.clear()
        for rank in ranks:
            place = self._place(rank)
            if place is None:
                continue
            try:
                lines = load_rank_lines(
                    self._root,
                    self._table,
                    rank,
                    columns=self._columns,
                    offset=place.offset,
                    first_line=place.next_line,
                    limit_bytes=self._limit_bytes,
                )
            except FileNotFoundError:
                continue
            place.offset = lines.end_offset
            place.next_line = lines.next_line
            problems += lines.problems
            parts.append(lines.rows)
        schema = pa.schema([arrow_schema(self._table).field(name) for name in self._columns])
        return News(
            rows=pa.concat_tables([schema.empty_table(), *parts]),
            problems=tuple(problems),
            from_start=from_start,
            sealed=sealed,
        )

    def _place(self, rank: int) -> _Place | None:
        if rank not in self._places:
            identity = self._identity(rank)
            if identity is None:
                return None
            self._places[rank] = _Place(inode=identity[0])
        return self._places[rank]

    def _was_replaced(self, rank: int) -> bool:
        place = self._places.get(rank)
        identity = self._identity(rank) if place else None
        if place is None or identity is None:
            return False
        return identity[0] != place.inode or identity[1] < place.offset

    def _identity(self, rank: int) -> tuple[int, int] | None:
        """Inode and size of the rank's file."""
        try:
            with open_inside(self._root, rank_dir(rank), self._table.file_name) as file:
                facts = fstat(file.fileno())
                return facts.st_ino, facts.st_size
        except (OSError, RefusedFileError):
            return None
