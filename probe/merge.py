"""One trace file of a whole run, for a timeline viewer such as Perfetto.

Every rank's profiled windows side by side, a process a rank and device; above them what our own
rows say: a slice for each step with its phases, one for each sampled collective, and counters of
loss, loss scale and memory. Times of all ranks are wall clock, as far as their hosts' clocks agree.
"""

import gzip
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

from probe.analyse.trace.timeline import Element, RankClock, run_elements, trace_elements
from probe.read.problem import Problem
from probe.read.run import Run
from probe.read.run_traces import find_traces, load_trace
from probe.schema.layout import TEMPORARY_SUFFIX
from probe.schema.tables import COMM_CALLS, MEMORY, STEPS, Table

SLOT_NS = 10**15
"""The base of the clock is a multiple of this, so that ranks written apart share it."""
EVENTS_AT_ONCE = 4096


@dataclass(frozen=True, kw_only=True)
class Merged:
    """The file that was written."""

    path: Path
    ranks: tuple[int, ...]
    windows: int
    events: int
    size_bytes: int
    problems: tuple[Problem, ...]


def merge_run(
    run: Run,
    path: Path,
    *,
    ranks: Collection[int] = (),
    on_rank: Callable[[int, int, int], None] = lambda rank, number, count: None,
) -> Merged:
    """Write one trace of all ranks, or of those chosen; packed if the path ends in `.gz`."""
    chosen = tuple(rank for rank in run.ranks if not ranks or rank in ranks)
    base_ns = (run.manifest.started_ns or 0) // SLOT_NS * SLOT_NS
    merging = _Merging(run=run, base_ns=base_ns)
    temporary = path.with_name(path.name + TEMPORARY_SUFFIX)
    try:
        packed = path.suffix == ".gz"
        with gzip.open(temporary, "wb", 5) if packed else temporary.open("wb") as out:
            head = {"schemaVersion": 1, "traceName": run.name, "baseTimeNanoseconds": base_ns}
            out.write(msgspec.json.encode(head)[:-1] + b',"traceEvents":[\n')
            first = True
            for number, rank in enumerate(chosen):
                on_rank(rank, number, len(chosen))
                elements = merging.of_rank(rank)
                while part := list(islice(elements, EVENTS_AT_ONCE)):
                    merging.events += len(part)
                    out.write(b"" if first else b",\n")
                    out.write(b",\n".join(map(msgspec.json.encode, part)))
                    first = False
            out.write(b"\n]}\n")
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    return Merged(
        path=path,
        ranks=chosen,
        windows=merging.windows,
        events=merging.events,
        size_bytes=path.stat().st_size,
        problems=tuple(merging.problems),
    )


@dataclass(kw_only=True)
class _Merging:
    """Collects what is met with on the way."""

    run: Run
    base_ns: int
    windows: int = 0
    events: int = 0
    problems: list[Problem] = field(default_factory=list)

    def of_rank(self, rank: int) -> Iterator[Element]:
        """Everything that is known of a rank."""
        header = self.run.headers.get(rank)
        # From the rank's monotonic clock onto the wall's.
        clock_ns = header.clock.wall_ns - header.clock.monotonic_ns if header else 0
        rows = {table: self._rows(table, rank) for table in (STEPS, MEMORY, COMM_CALLS)}
        yield from run_elements(rank, rows, RankClock(shift_ns=clock_ns - self.base_ns))
        for window in find_traces(self.run.path):
            if window.rank == rank:
                trace = load_trace(self.run.path, window)
                self.problems += trace.problems
                self.windows += 1
                yield from trace_elements(trace, rank, self.base_ns)

    def _rows(self, table: Table, rank: int) -> list[dict[str, Any]]:
        loaded = self.run.table(table, ranks=[rank])
        self.problems += loaded.problems
        rows: list[dict[str, Any]] = loaded.table.to_pylist()
        return rows
