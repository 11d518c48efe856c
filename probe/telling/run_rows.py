"""Many runs in a table: what their documents say at once, and their numbers as time allows.

The documents of a thousand runs are read while a person blinks; the numbers of a run need three of
its tables. `Ledger.rows` therefore takes a budget: numbers of the newest runs come first, and what
was read stays in memory for as long as the run's files do not change.
"""

import threading
import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from probe.analyse.steps.headline import (
    COMM_COLUMNS,
    MEMORY_COLUMNS,
    STEP_COLUMNS,
    Headline,
    summarise_run,
)
from probe.read.discovery import RunSummary, summarise
from probe.read.fingerprint import fingerprint
from probe.read.run import load_run
from probe.remark import remark_of
from probe.schema.documents import Remark
from probe.schema.tables import COMM, MEMORY, STEPS

MOST_REMEMBERED = 20_000
"""Runs whose numbers are kept; each is a few hundred bytes."""


@dataclass(frozen=True, kw_only=True)
class RunRow:
    """One run of the table."""

    key: str
    summary: RunSummary
    remark: Remark
    headline: Headline | None
    """None as long as the numbers were not read, or where the run cannot be read."""


@dataclass(frozen=True, kw_only=True)
class RunRows:
    """The table."""

    rows: tuple[RunRow, ...]
    """Newest first."""
    unread: int
    """Runs whose numbers are still to come."""


class Ledger:
    """The numbers of runs, remembered by path and fingerprint; shared by all who look."""

    def __init__(self, *, most: int = MOST_REMEMBERED) -> None:
        self._most = most
        self._known: OrderedDict[Path, tuple[str, Headline | None]] = OrderedDict()
        self._turn = threading.Lock()

    def rows(self, shelf: Mapping[str, Path], *, budget_s: float) -> RunRows:
        """Every run of a shelf; numbers are read until the budget is spent, one at the least."""
        deadline = time.monotonic() + budget_s
        found = [
            (key, summary)
            for key, path in shelf.items()
            if (summary := summarise(path)) is not None
        ]
        found.sort(key=lambda item: (item[1].started_ns, item[0]), reverse=True)
        rows, unread, read = [], 0, 0
        for key, summary in found:
            version = fingerprint(summary.path)
            known = self._remembered(summary.path, version)
            if known is None and (not read or time.monotonic() < deadline):
                known = self._read(summary.path, version)
                read += 1
            unread += known is None
            rows.append(
                RunRow(
                    key=key,
                    summary=summary,
                    remark=remark_of(summary.path, summary.manifest),
                    headline=known[1] if known else None,
                )
            )
        return RunRows(rows=tuple(rows), unread=unread)

    def _remembered(self, path: Path, version: str) -> tuple[str, Headline | None] | None:
        with self._turn:
            known = self._known.get(path)
            if known is None or known[0] != version:
                return None
            self._known.move_to_end(path)
            return known

    def _read(self, path: Path, version: str) -> tuple[str, Headline | None]:
        known = (version, _headline(path))
        with self._turn:
            self._known[path] = known
            self._known.move_to_end(path)
            while len(self._known) > self._most:
                self._known.popitem(last=False)
        return known


def _headline(path: Path) -> Headline | None:
    run = load_run(path)
    if not run.readable:
        return None
    return summarise_run(
        steps=run.table(STEPS, columns=STEP_COLUMNS).table,
        memory=run.table(MEMORY, columns=MEMORY_COLUMNS).table,
        comm=run.table(COMM, columns=COMM_COLUMNS).table,
    )
