"""Making a run of traces that other programs recorded: a folder of Kineto files, one a rank.

Each trace is read once, its rows go through the same writers as those of a recorded run, and its
distilled form lies where a profiled window of ours would. The profiler's files stay where they are.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from probe.analyse.trace.rows import TraceRows, trace_rows
from probe.analyse.trace.steps import StepMark
from probe.distill import write_distilled
from probe.errors import ProbeError, UsageError
from probe.read.problem import Problem
from probe.read.trace import Trace
from probe.read.trace_file import read_trace
from probe.record.rank import RankWriter
from probe.record.run import RunWriter
from probe.schema.documents import Clock, Header, HostFacts, Manifest
from probe.schema.layout import rank_dir
from probe.schema.rows import EventRow
from probe.schema.vocabulary import EventKind, RunStatus, Severity

RECORDER = "kineto"
_ENDINGS = (".json", ".json.gz")
MOST_FILES = 100_000
EARLIEST_DATE_NS = 10**18
"""In the year 2001."""


@dataclass(frozen=True, kw_only=True)
class AdoptedTrace:
    """One trace that became part of the run."""

    source: Path
    rank: int
    events: int
    steps: tuple[int, ...]
    mark: StepMark


@dataclass(frozen=True, kw_only=True)
class Adopted:
    """The run that was made."""

    path: Path
    traces: tuple[AdoptedTrace, ...]
    problems: tuple[Problem, ...]
    """What was wrong with the files, those that were passed over included."""


def adopt_traces(
    paths: Sequence[Path],
    runs_dir: Path,
    *,
    name: str = "",
    on_trace: Callable[[Path, int, int], None] = lambda path, number, count: None,
) -> Adopted:
    """Make a run below `runs_dir` of the traces in files and folders."""
    files = find_trace_files(paths)
    adoption = _Adoption(runs_dir=runs_dir, name=name or _common_name(paths))
    for number, path in enumerate(files):
        on_trace(path, number, len(files))
        adoption.take(path)
    return adoption.finish()


def find_trace_files(paths: Sequence[Path]) -> list[Path]:
    """Files named, and those below the folders named that look like traces, in order of name."""
    files: dict[Path, None] = {}
    for path in paths:
        if path.is_dir():
            found = [item for item in path.rglob("*") if _looks_like_trace(item)]
            if not found:
                raise UsageError(f"{path} holds no *.json or *.json.gz; name a folder of traces.")
            files |= dict.fromkeys(sorted(found, key=_with_numbers))
        elif path.exists():
            files[path] = None
        else:
            raise UsageError(f"{path} does not exist; name Kineto traces or a folder of them.")
    if len(files) > MOST_FILES:
        raise UsageError(f"{len(files):,} files are more than a job has ranks; name fewer.")
    return list(files)


@dataclass(kw_only=True)
class _Adoption:
    """A run in the making."""

    runs_dir: Path
    name: str
    run: RunWriter | None = None
    traces: list[AdoptedTrace] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    world_size: int = 1
    began_ns: list[int] = field(default_factory=list)
    ended_ns: list[int] = field(default_factory=list)
    hosts: dict[str, None] = field(default_factory=dict)

    def take(self, path: Path) -> None:
        """Read one trace and write what it says; a file that holds no event is passed over."""
        try:
            trace = read_trace(path)
        except UsageError as error:
            self._pass_over(path, str(error))
            return
        self.problems += trace.problems
        if not len(trace.events):
            if not trace.problems:
                self._pass_over(path, "has no events")
            return
        rows = trace_rows(trace)
        rank = self._rank_of(trace)
        first = rows.steps[0] if rows.steps else 0
        if earlier := self._holder(rank, first):
            self._pass_over(
                path, f"says rank {rank}, step {first}, as {earlier.source.name} does already"
            )
            return
        self._write(path, trace, rows, rank, first)

    def finish(self) -> Adopted:
        """Close the run."""
        if self.run is None:
            what = self.problems[0].what if self.problems else "there is no file"
            raise UsageError(f"There is no trace to import: {what}.")
        ranks = {item.rank for item in self.traces}
        began_ns, ended_ns = min(self.began_ns), max(self.ended_ns)
        self.run.update(
            status=RunStatus.FINISHED,
            world_size=max(self.world_size, max(ranks) + 1),
            started_ns=_on_the_wall(began_ns) or self.run.manifest.started_ns,
            ended_ns=_on_the_wall(ended_ns),
            hosts=[HostFacts(name=host) for host in self.hosts],
            lost=self.lost,
        )
        return Adopted(path=self.run.path, traces=tuple(self.traces), problems=tuple(self.problems))

    def _write(self, path: Path, trace: Trace, rows: TraceRows, rank: int, first: int) -> None:
        run = self.run = self.run or self._create(trace)
        begin_ns = int(trace.events.start_ns.min())
        end_ns = int(trace.events.end_ns.max())
        facts = trace.facts
        writer = RankWriter(
            run.path,
            Header(
                rank=rank,
                host=facts.host,
                device=facts.devices[0].name if facts.devices else "cpu",
                clock=Clock(wall_ns=_on_the_wall(begin_ns) or 0, monotonic_ns=begin_ns),
                engine=RECORDER,
                versions=facts.versions,
            ),
            attempt=0,  # Windows of one rank stand beside each other, in any order.
        )
        for row in rows.rows:
            writer.write(row)
        writer.write(
            EventRow(
                time_ns=begin_ns,
                kind=EventKind.PROFILE_WINDOW,
                step=first,
                name=path.name,
                duration_ns=end_ns - begin_ns,
                size_bytes=path.stat().st_size,
            )
        )
        writer.beat(step=rows.steps[-1] if rows.steps else None)
        reason = writer.stop_reason
        writer.close()
        if reason:
            raise ProbeError(f"The run in {run.path} could not be written ({reason}).")
        write_distilled(trace, run.path / rank_dir(rank), first)
        self.world_size = max(self.world_size, facts.world_size or 1)
        self.began_ns.append(begin_ns)
        self.ended_ns.append(end_ns)
        if facts.host:
            self.hosts[facts.host] = None
        if rows.unnamed_collectives:
            self.lost.append(
                f"{rows.unnamed_collectives} collectives of {path.name} do not say what they are."
            )
        self.traces.append(
            AdoptedTrace(
                source=path,
                rank=rank,
                events=len(trace.events),
                steps=rows.steps,
                mark=rows.mark,
            )
        )

    def _create(self, trace: Trace) -> RunWriter:
        """The run directory, with what the first trace says of all."""
        facts = trace.facts
        return RunWriter.create(
            self.runs_dir,
            Manifest(
                name=self.name,
                recorder=RECORDER,
                started_ns=_on_the_wall(int(trace.events.start_ns.min())),
                backend=facts.backend,
                devices=facts.devices,
                versions=facts.versions,
                notes="Made of profiler traces: every step is profiled, and what a trace does not "
                "hold (loss, scale, memory) is not known.",
            ),
        )

    def _rank_of(self, trace: Trace) -> int:
        """The rank that the trace says, else the next that nobody has."""
        if trace.facts.rank is not None:
            return trace.facts.rank
        return max((item.rank for item in self.traces), default=-1) + 1

    def _holder(self, rank: int, first: int) -> AdoptedTrace | None:
        """The trace that holds this window already."""
        for item in self.traces:
            if item.rank == rank and (item.steps[0] if item.steps else 0) == first:
                return item
        return None

    def _pass_over(self, path: Path, what: str) -> None:
        self.problems.append(
            Problem(
                severity=Severity.WARNING,
                file=path.name,
                what=what,
                hint="It is passed over; all others are imported.",
            )
        )


def _on_the_wall(moment_ns: int) -> int | None:
    """A moment that can be a date; traces without the wall clock begin near zero."""
    return moment_ns if moment_ns > EARLIEST_DATE_NS else None


def _looks_like_trace(path: Path) -> bool:
    return path.name.endswith(_ENDINGS) and path.is_file()


def _with_numbers(path: Path) -> tuple[tuple[int, str], ...]:
    """Sorts rank10 behind rank9."""
    parts = re.split(r"(\d+)", str(path))
    return tuple((int(part), "") if part.isdecimal() else (-1, part) for part in parts)


def _common_name(paths: Sequence[Path]) -> str:
    """The folder that was named, or the first file without its endings."""
    first = paths[0].resolve()
    return first.name if first.is_dir() else first.name.split(".")[0]
