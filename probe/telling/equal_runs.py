"""Finding the runs of a folder that are starts of the same program as a given one.

Their neighbours in time are asked first, and only so many that a folder of a thousand runs costs
what a folder of fifty does: their small documents decide, and of those that are equal the step
times are read.
"""

from collections.abc import Collection, Sequence
from pathlib import Path

from probe.analyse.compare.comparability import Effect, Judgement, compare_setups
from probe.analyse.compare.history import EqualRun, equal_run
from probe.analyse.compare.measured_run import MeasuredRun
from probe.analyse.compare.setup import setup_of
from probe.analyse.steps.steps import COUNTING_COLUMNS
from probe.read.discovery import run_paths
from probe.read.documents import read_manifest
from probe.read.run import Run, load_run
from probe.schema.documents import Manifest
from probe.schema.tables import STEPS
from probe.schema.vocabulary import RunStatus

MOST_ASKED = 50
"""Runs whose documents are looked at."""
MOST_READ = 8
"""Runs whose steps are read: more would tell the spread hardly better."""


def history_of(sides: Sequence[Sequence[MeasuredRun]]) -> list[tuple[EqualRun, ...]]:
    """For each side of one run the other runs of its setup; several tell for themselves."""
    compared = [run.path for side in sides for run in side]
    read: dict[Path, EqualRun] = {}
    return [
        equal_runs(side[0], apart_from=compared, read=read) if len(side) == 1 else ()
        for side in sides
    ]


def equal_runs(
    run: MeasuredRun,
    *,
    apart_from: Collection[str] = (),
    read: dict[Path, EqualRun] | None = None,
) -> tuple[EqualRun, ...]:
    """Finished runs beside this one that were set up alike, on the same machine and code.

    `read` holds those that were read already, and gets the others: sides may share them.
    """
    read = {} if read is None else read
    path = Path(run.path)
    left_out = {Path(item).resolve() for item in (run.path, *apart_from)}
    others = [item for item in run_paths(path.parent) if item.resolve() not in left_out]
    began_s = _changed_s(path)
    others.sort(key=lambda item: (abs(_changed_s(item) - began_s), item.name))
    found: list[EqualRun] = []
    for other in others[:MOST_ASKED]:
        if len(found) == MOST_READ:
            break
        opened = _opened_if_equal(run, other)
        if opened is None:
            continue
        if other not in read:
            steps = opened.table(STEPS, columns=COUNTING_COLUMNS)
            read[other] = equal_run(str(other), steps.table)
        found.append(read[other])
    return tuple(found)


def _opened_if_equal(run: MeasuredRun, path: Path) -> Run | None:
    manifest, _ = read_manifest(path)
    if manifest is None or not _may_be_equal(run.manifest, manifest):
        return None
    other = load_run(path)
    if not other.readable or other.verdict.status is not RunStatus.FINISHED:
        return None
    engine = next((header.engine for header in other.headers.values()), "")
    between = compare_setups(run.setup, setup_of(other.manifest, engine=engine))
    alike = between.judgement is Judgement.COMPARABLE and not between.touches(Effect.TIME)
    return other if alike else None


def _may_be_equal(one: Manifest, other: Manifest) -> bool:
    """What tells most runs apart before any other file of theirs is opened."""
    return (
        one.config == other.config
        and one.model == other.model
        and one.script_sha256 == other.script_sha256
        and one.world_size == other.world_size
    )


def _changed_s(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0
