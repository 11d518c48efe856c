"""The profiled window that a run is told by: the first with events, of one rank."""

from dataclasses import dataclass
from typing import Any

import msgspec

from probe.analyse.trace.collectives import CollectiveRow
from probe.analyse.trace.summary import TraceSummary, summarise_trace
from probe.errors import UsageError
from probe.read.problem import Problem
from probe.read.run import Run
from probe.read.run_traces import TraceFile, find_traces, load_trace

CHEAP_BYTES = 2_000_000
"""A distilled window of this size is read and understood in about half a second."""


@dataclass(frozen=True, kw_only=True)
class ToldWindow:
    """One window, or where it lies if reading it takes longer than one may wait unasked."""

    file: TraceFile
    windows: int
    """Profiled windows of the run."""
    summary: TraceSummary | None
    """None if it was not read."""
    problems: tuple[Problem, ...] = ()
    """Of this window, and of those that hold nothing and were passed over."""


def tell_window(run: Run, *, at_any_cost: bool, rank: int | None = None) -> ToldWindow | None:
    """None without a window; one that is large, or not distilled yet, is read only if asked for."""
    found = find_traces(run.path)
    files = found if rank is None else [file for file in found if file.rank == rank]
    if rank is not None and not files:
        ranks = ", ".join(str(number) for number in sorted({file.rank for file in found}))
        others = f"those that have one are {ranks}" if ranks else "no rank of it has one"
        raise UsageError(f"{run.name} has no profiled window of rank {rank}; {others}.")
    problems: list[Problem] = []
    for file in files:
        cheap = file.distilled and file.size_bytes <= CHEAP_BYTES
        if not cheap and not at_any_cost:
            return ToldWindow(file=file, windows=len(found), summary=None, problems=tuple(problems))
        trace = load_trace(run.path, file)
        problems += trace.problems
        if len(trace.events):
            return ToldWindow(
                file=file,
                windows=len(found),
                summary=summarise_trace(trace),
                problems=tuple(problems),
            )
    if not files:
        return None
    return ToldWindow(file=files[0], windows=len(found), summary=None, problems=tuple(problems))


def window_json(window: ToldWindow | None) -> dict[str, Any] | None:
    """The window as plain values; null without one or where it was not read."""
    if window is None or window.summary is None:
        return None
    told = window.summary
    steps = zip(told.steps, told.breakdowns, told.gaps, told.paths, strict=True)
    return {
        "rank": window.file.rank,
        "first_step": window.file.step,
        "windows": window.windows,
        "events": told.events,
        "on_device": told.on_device,
        "mark": told.mark.value,
        "bound": told.bound and told.bound.value,
        "total": {**_plain(told.total), "overlap": told.total.overlap},
        "idle_by_cause_ns": _plain(told.idle_by_cause_ns),
        "path_by_kind_ns": _plain(told.path_by_kind_ns),
        "path_by_name_ns": _plain(told.path_by_name_ns),
        "steps": [
            {
                "step": step.number,
                "breakdown": {**_plain(parts), "overlap": parts.overlap},
                "gaps": _plain(gaps),
                "path_by_kind_ns": _plain(path.by_kind_ns),
            }
            for step, parts, gaps, path in steps
        ],
        "operators": _plain(told.operators),
        "kernels": _plain(told.kernels),
        "collectives": [_collective(row) for row in told.collectives],
    }


def _collective(row: CollectiveRow) -> dict[str, Any]:
    return {
        **_plain(row),
        "algorithm_bandwidth": row.algorithm_bandwidth,
        "bus_bandwidth": row.bus_bandwidth,
    }


def _plain(value: Any) -> Any:
    return msgspec.to_builtins(value, str_keys=True)
