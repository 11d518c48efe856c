"""Reading a profiler's JSON into columns, in one pass and bounded memory.

`read_trace` raises only where there is no file to read; damage becomes problems, and what is there
is kept. Known forms: Kineto's documents of any age, packed or not, and bare arrays of events.
"""

import stat
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from probe.errors import UsageError
from probe.read.problem import Problem
from probe.read.trace import Trace
from probe.read.trace_bytes import pieces
from probe.read.trace_columns import TraceColumns
from probe.read.trace_facts import facts_of, with_left_out
from probe.read.trace_stream import EventStream
from probe.schema.vocabulary import Severity

MEMORY_LIMIT_BYTES = 4 << 30
"""Columns beyond this are not held; at some seventy bytes an event that is sixty million."""


def read_trace(path: str | Path, *, limit_bytes: int = MEMORY_LIMIT_BYTES) -> Trace:
    """The trace in a file, wherever it lies."""
    path = Path(path)
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise UsageError(f"{path} is no file; name a Kineto trace (*.json or *.json.gz).")
        with path.open("rb", buffering=0) as file:
            return read_trace_from(file, name=path.name, limit_bytes=limit_bytes)
    except OSError as error:
        raise UsageError(f"{path} cannot be read ({error.strerror or error}).") from error


def read_trace_from(file: BinaryIO, *, name: str, limit_bytes: int = MEMORY_LIMIT_BYTES) -> Trace:
    """The trace in an open file; `name` stands in its problems and may tell its rank."""
    stream = EventStream(pieces=pieces(file))
    columns = TraceColumns()
    over_limit = False
    for batch in stream.batches():
        columns.add(batch)
        if columns.held_bytes > limit_bytes:
            over_limit = True
            break
    facts = facts_of(stream.outside, file_name=name)
    return Trace(
        facts=with_left_out(facts, columns.left_out),
        names=columns.names(),
        lanes=columns.lanes(),
        signatures=columns.signatures(),
        collectives=columns.collectives(),
        problems=tuple(_Findings(name).of(stream, columns, limit_bytes if over_limit else None)),
        events=columns.events(base_ns=facts.base_ns),
    )


@dataclass(frozen=True)
class _Findings:
    """Turns what a stream met with into problems of its file."""

    file: str

    def of(
        self, stream: EventStream, columns: TraceColumns, broken_limit_bytes: int | None
    ) -> list[Problem]:
        """All that is wrong with the trace, the gravest first."""
        found = []
        if stream.torn:
            found.append(self._error(stream.torn.what, stream.torn.hint))
        if not stream.found_array:
            found.append(
                self._error(
                    "holds no traceEvents",
                    "It is no Kineto trace, or it was cut before its first event.",
                )
            )
        elif broken_limit_bytes is not None:
            found.append(
                self._error(
                    f"has more than {columns.rows:,} events, which would not fit "
                    f"{broken_limit_bytes / 1e9:.1f} GB",
                    "The first ones are read; record fewer steps or without stacks.",
                )
            )
        elif not stream.closed and not stream.torn:
            found.append(
                self._error(
                    f"ends within its events, after {columns.rows:,} of them",
                    "What is there is read; the file was cut or is still being written.",
                )
            )
        if stream.lost_events:
            found.append(
                self._error(
                    f"has {_events(stream.lost_events, 'damaged ')}",
                    "What is damaged is left out; all others are read.",
                )
            )
        if columns.impossible_times:
            found.append(
                self._warning(
                    f"has {_events(columns.impossible_times)} whose times cannot be",
                    "All others are read; the profiler's counters had wrapped around.",
                )
            )
        if stream.closed and not columns.rows:
            found.append(
                self._warning(
                    "has no event that takes time",
                    "Check that the profiled window was reached: schedule and step().",
                )
            )
        return found

    def _error(self, what: str, hint: str) -> Problem:
        return Problem(severity=Severity.ERROR, file=self.file, what=what, hint=hint)

    def _warning(self, what: str, hint: str) -> Problem:
        return Problem(severity=Severity.WARNING, file=self.file, what=what, hint=hint)


def _events(count: int, kind: str = "") -> str:
    return f"{count:,} {kind}event{'s' if count != 1 else ''}"
