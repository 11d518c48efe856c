"""The runs below a folder, newest first, from their small documents alone.

No table is opened and no Arrow is loaded, so a thousand runs are listed while a person blinks. A
run that is broken is listed like any other, with its problems.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from probe.errors import NotARunError
from probe.read.documents import read_evidence
from probe.read.inside import rank_folders
from probe.read.nodes import read_whole
from probe.read.problem import Problem
from probe.read.status import Verdict, conclude_status
from probe.schema.documents import Manifest
from probe.schema.layout import MANIFEST, supports
from probe.schema.vocabulary import RunStatus, Severity

RANKS_ASKED = 64
"""Ranks whose heartbeats decide over a run in a list; opening the run asks all of them."""


@dataclass(frozen=True, kw_only=True)
class RunSummary:
    """One run of a list."""

    path: Path
    manifest: Manifest
    verdict: Verdict
    ranks: int
    """Ranks that have a folder."""
    steps: int | None
    """Steps that the first rank has ended, by its heartbeat."""
    started_ns: int
    """Wall clock; of the folder itself where the manifest does not say."""
    problems: tuple[Problem, ...]

    @property
    def name(self) -> str:
        """The directory's name, which is what people type."""
        return self.path.name


def find_runs(folder: str | Path) -> list[RunSummary]:
    """The runs directly below a folder, or the folder itself if it is a run; newest first."""
    folder = Path(folder)
    if not folder.is_dir():
        kind = "is a file" if folder.exists() else "does not exist"
        raise NotARunError(f"{folder} {kind}; `probe run SCRIPT` records a first run into runs/.")
    try:
        summaries = [summary for path in _candidates(folder) if (summary := summarise(path))]
    except OSError as error:
        raise NotARunError(f"{folder} cannot be listed ({error.strerror}).") from error
    return sorted(summaries, key=lambda item: (item.started_ns, item.name), reverse=True)


def run_paths(folder: Path) -> list[Path]:
    """The runs below a folder by their names alone, in no order; none where there is no folder."""
    try:
        return [path for path in _candidates(folder) if holds_run(path)]
    except OSError:
        return []


def holds_run(path: Path) -> bool:
    """Whether a directory looks like a run from outside, whatever state it is in."""
    try:
        return (path / MANIFEST).exists() or bool(rank_folders(path)[0])
    except OSError:
        return False


def summarise(path: Path) -> RunSummary | None:
    """One run as a list shows it; None where there is none, or it cannot be entered."""
    try:
        ranks, problems = rank_folders(path)
        manifest, found = read_whole(path)
        changed_ns = path.stat().st_mtime_ns
    except OSError:
        return None
    if manifest is None and not ranks:
        return None
    evidence = {}
    unsettled = manifest is None or (
        manifest.status is RunStatus.RUNNING and not manifest.exit_codes
    )
    for rank in ranks[: RANKS_ASKED if unsettled else 1]:
        evidence[rank], faults = read_evidence(path, rank)
        problems += faults
    heartbeat = evidence[ranks[0]].heartbeat if ranks else None
    started_ns = manifest.started_ns if manifest else None
    return RunSummary(
        path=path,
        manifest=manifest or Manifest(),
        verdict=conclude_status(manifest, evidence),
        ranks=len(ranks),
        steps=heartbeat.step + 1 if heartbeat and heartbeat.step is not None else None,
        started_ns=started_ns or changed_ns,
        problems=(*problems, *found),
    )


def worst(problems: tuple[Problem, ...]) -> Severity | None:
    """The gravest severity among problems."""
    order = list(Severity)
    return min((item.severity for item in problems), key=order.index, default=None)


def is_readable(summary: RunSummary) -> bool:
    """Whether the run is in a format that we read."""
    return supports(summary.manifest.format_version)


def _candidates(folder: Path) -> Iterator[Path]:
    if holds_run(folder):
        yield folder
        return
    for path in folder.iterdir():
        if path.is_dir():
            yield path
