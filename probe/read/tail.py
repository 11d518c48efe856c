"""Following a live run: each poll parses only what was written since the last one.

The place reached is kept as a byte offset a rank. A file that shrank or was replaced (a run that
was copied anew) is read from its start again, and the news say so.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from os import fstat
from pathlib import Path

import pyarrow as pa

from probe.read.attempts import RULED_BY, begins_of, counted, has_step
from probe.read.columns import arrow_schema
from probe.read.inside import RefusedFileError, listed_ranks, open_inside
from probe.read.loading import checked_columns
from probe.read.problem import Problem
from probe.read.sealed import identity_of
from probe.read.unsealed import MEMORY_LIMIT_BYTES, load_rank_lines
from probe.read.words import join
from probe.schema.layout import rank_dir
from probe.schema.tables import STEPS, Table


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
    """A place in one table of a live run; of steps that were done again the last attempt counts."""

    def __init__(
        self,
        root: Path,
        table: Table,
        *,
        columns: Sequence[str] | None = None,
        limit_bytes: int = MEMORY_LIMIT_BYTES,
    ) -> None:
        self._columns = list(checked_columns(table, columns))
        ruled = has_step(table)
        reading = list(dict.fromkeys([*self._columns, *(RULED_BY if ruled else ())]))
        self._rows = _RawTail(root, table, columns=reading, limit_bytes=limit_bytes)
        self._steps = self._rows if table is STEPS or not ruled else _steps_tail(root, limit_bytes)
        self._ruled = ruled
        self._begins: dict[tuple[int, int], int] = {}
        self._gave_rows = False

    def poll(self) -> News:
        """The rows that are new and count."""
        news = self._rows.poll()
        if self._ruled:
            steps = news if self._steps is self._rows else self._steps.poll()
            went_back = self._learn(steps)
            if went_back and self._gave_rows and not news.from_start:
                self._rows.rewind()
                news = replace(self._rows.poll(), from_start=True)
            news = replace(news, rows=counted(news.rows, self._begins))
        self._gave_rows = self._gave_rows or news.rows.num_rows > 0
        return replace(news, rows=news.rows.select(self._columns))

    def _learn(self, steps: News) -> bool:
        """Take note of where attempts began; whether one began that takes steps back."""
        if steps.from_start:
            self._begins.clear()
        went_back = False
        for key, step in begins_of(steps.rows).items():
            known = self._begins.get(key)
            if known is None or step < known:
                self._begins[key] = step
                went_back = went_back or key[1] > 0
        return went_back


def _steps_tail(root: Path, limit_bytes: int) -> "_RawTail":
    return _RawTail(root, STEPS, columns=RULED_BY, limit_bytes=limit_bytes)


class _RawTail:
    """A place in one table of a live run, with every row that was written."""

    def __init__(
        self,
        root: Path,
        table: Table,
        *,
        columns: Sequence[str],
        limit_bytes: int,
    ) -> None:
        self._root = root
        self._table = table
        self._columns = list(columns)
        self._limit_bytes = limit_bytes
        self._places: dict[int, _Place] = {}

    def rewind(self) -> None:
        """Read all of it again at the next poll."""
        self._places.clear()

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
            rows=join([schema.empty_table(), *parts]),
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
