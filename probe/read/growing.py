"""A table of a run that is still being written, whole at every look and never read twice."""

import threading
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa

from probe.read.problem import Problem
from probe.read.run import load_run
from probe.read.tail import Tail
from probe.read.words import join
from probe.schema.tables import Table


@dataclass(frozen=True, kw_only=True)
class Grown:
    """The table so far."""

    rows: pa.Table
    """Sorted by rank and step, as a load gives them."""
    problems: tuple[Problem, ...]
    version: int
    """Changes when the table does, and not otherwise."""


class GrowingTable:
    """A place in one table; shared by all who look at it."""

    def __init__(self, root: Path, table: Table, *, columns: tuple[str, ...]) -> None:
        self._root, self._table, self._columns = root, table, columns
        self._tail = Tail(root, table, columns=columns)
        self._grown: Grown | None = None
        self._sealed = False
        self._turn = threading.Lock()

    def look(self) -> Grown:
        """What was written until now."""
        with self._turn:
            if self._grown is None or not self._sealed:
                self._grown = self._look(self._grown)
            return self._grown

    def _look(self, before: Grown | None) -> Grown:
        news = self._tail.poll()
        version = 0 if before is None else before.version + 1
        if news.sealed:
            # From here on the lines may go at any time, and the sealed table grows no more.
            self._sealed = True
            loaded = load_run(self._root).table(self._table, columns=self._columns)
            return Grown(rows=loaded.table, problems=loaded.problems, version=version)
        if before is None or news.from_start:
            return Grown(rows=_sorted(news.rows), problems=news.problems, version=version)
        if not news.rows.num_rows:
            return before
        return replace(
            before,
            rows=_sorted(join([before.rows, news.rows])),
            problems=(*before.problems, *news.problems),
            version=version,
        )


def _sorted(rows: pa.Table) -> pa.Table:
    # Stable: rows of one step keep the order in which they were written.
    return rows.sort_by([("rank", "ascending"), ("step", "ascending")])
