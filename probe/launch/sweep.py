"""Recording a matrix of settings, one run after another, and going on where it stopped.

A start that failed is noted and the next one begins; asked again, the sweep tries it again, because
somebody may have found out why. What ended well is never run twice.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from probe.launch.cells import Cell, Start, start_of, starts_of
from probe.launch.processes import Finished
from probe.launch.request import RunRequest
from probe.read.discovery import find_runs
from probe.schema.vocabulary import RunStatus


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What is to be recorded: the request that all have in common, and the cells."""

    request: RunRequest
    sweep: str
    cells: tuple[Cell, ...]
    """In their order; those that cannot be recorded are among them."""
    repeats: int

    @property
    def starts(self) -> list[Start]:
        """Every run of the sweep, in order."""
        return list(starts_of([cell for cell in self.cells if cell.why_not is None], self.repeats))

    def request_of(self, start: Start) -> RunRequest:
        """What is launched for one of them."""
        return replace(
            self.request,
            flags=start.cell.flags,
            name=start.cell.name,
            tags=(*self.request.tags, *start.tags(self.sweep)),
        )


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """A run of the sweep that is there, from now or from before."""

    start: Start
    path: Path
    wall_ns: int | None


@dataclass(frozen=True, kw_only=True)
class Failure:
    """A start that did not end well."""

    start: Start
    path: Path | None
    first_rank: int | None


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What became of a sweep."""

    recorded: tuple[Recorded, ...]
    failures: tuple[Failure, ...]
    interrupted: bool


def already_recorded(plan: Plan) -> dict[Start, Recorded]:
    """The runs of this sweep that ended well, the newest of each start."""
    folder = plan.request.runs_dir
    found: dict[Start, Recorded] = {}
    for run in find_runs(folder) if folder.is_dir() else ():
        start = start_of(run.manifest, plan.sweep, plan.cells)
        if start is not None and run.verdict.status is RunStatus.FINISHED:
            began_ns, ended_ns = run.manifest.started_ns, run.manifest.ended_ns
            known = began_ns is not None and ended_ns is not None
            wall_ns = ended_ns - began_ns if known else None  # type: ignore[operator]
            found.setdefault(start, Recorded(start=start, path=run.path, wall_ns=wall_ns))
    return found


def record_sweep(
    plan: Plan,
    *,
    launch: Callable[[RunRequest], Finished],
    on_start: Callable[[Start, int, int, float | None], None],
    on_failure: Callable[[Failure], None],
) -> Outcome:
    """Record what is missing.

    `on_start` gets the start, its number from 1, how many there are, and how long it should take
    from here to the end, in nanoseconds, if any run has told.
    """
    done = already_recorded(plan)
    starts = plan.starts
    failures: list[Failure] = []
    missing = [start for start in starts if start not in done]
    for position, start in enumerate(missing):
        took_ns = [run.wall_ns for run in done.values() if run.wall_ns is not None]
        each_ns = sum(took_ns) / len(took_ns) if took_ns else None
        left_ns = None if each_ns is None else each_ns * (len(missing) - position)
        on_start(start, starts.index(start) + 1, len(starts), left_ns)
        finished = launch(plan.request_of(start))
        status = finished.outcome.status
        if status is RunStatus.INTERRUPTED:
            return _outcome(starts, done, failures, interrupted=True)
        if status is RunStatus.FINISHED and finished.run_dir is not None:
            done[start] = Recorded(start=start, path=finished.run_dir, wall_ns=finished.wall_ns)
            continue
        failures.append(
            Failure(start=start, path=finished.run_dir, first_rank=finished.outcome.first)
        )
        on_failure(failures[-1])
    return _outcome(starts, done, failures, interrupted=False)


def _outcome(
    starts: Sequence[Start],
    done: dict[Start, Recorded],
    failures: Sequence[Failure],
    *,
    interrupted: bool,
) -> Outcome:
    return Outcome(
        recorded=tuple(done[start] for start in starts if start in done),
        failures=tuple(failures),
        interrupted=interrupted,
    )
