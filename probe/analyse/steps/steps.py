"""Which steps count, and how long they took: the ground of every statement about time.

A step's time is that of its slowest rank, which is then its critical rank: a job is as fast as
that. A step counts if every rank recorded it, none profiled it (the profiler disturbs all), none
skipped it (it does less work) and the run had warmed up. Of a step that was repeated after a
restart, the last attempt is the one that stands.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from probe.analyse.steps.warm_up import count_warm_up
from probe.schema.vocabulary import Phase

PHASE_COLUMNS = {phase: f"{phase.value}_ns" for phase in Phase}
COUNTING_COLUMNS = (
    "rank",
    "step",
    "wall_ns",
    *PHASE_COLUMNS.values(),
    "recompute_ns",
    "samples",
    "tokens",
    "skipped",
    "profiled",
)
"""Columns of the steps table that `counted_steps` reads."""

Integers = npt.NDArray[np.int64]


class Exclusion(StrEnum):
    """Why a step does not count; a step with several reasons goes by the first in this order."""

    INCOMPLETE = "incomplete"
    """Fewer ranks recorded it than recorded most steps: a cut end, or a rank that was lost."""
    PROFILED = "profiled"
    SKIPPED = "skipped"
    WARM_UP = "warm_up"


@dataclass(frozen=True, kw_only=True, eq=False)
class CountedSteps:
    """The steps that count, in order: one entry a step in every array."""

    step: Integers
    wall_ns: Integers
    """Wall time of the slowest rank."""
    critical_rank: Integers
    """The rank that was slowest; the lowest of equals."""
    phase_ns: Mapping[Phase, Integers]
    """Phases of the critical rank; they sum to `wall_ns` in every step."""
    recompute_ns: Integers
    """Part of the critical rank's backward that was spent on recomputed forwards."""
    samples: Integers | None
    """Samples of all ranks together; None if a rank does not tell."""
    tokens: Integers | None
    """Tokens of all ranks together; None if a rank does not tell."""
    recorded: int
    """Distinct steps that any rank recorded: those that count and those left out."""
    excluded: Mapping[Exclusion, int]
    """How many steps were left out, by reason; every reason is there, also with 0."""
    repeated: int
    """Steps of which an earlier attempt was replaced after a restart."""

    def __len__(self) -> int:
        return len(self.step)


def counted_steps(steps: pa.Table) -> CountedSteps:
    """The steps that count, from rows sorted by rank and step as the reader gives them."""
    rows, repeated = last_attempts(steps)
    rank, step = _integers(rows, "rank"), _integers(rows, "step")
    ranks, rank_at = np.unique(rank, return_inverse=True)
    numbers, step_at = np.unique(step, return_inverse=True)
    row_of = np.full((len(numbers), len(ranks)), -1, dtype=np.int64)
    row_of[step_at, rank_at] = np.arange(len(step))

    reason = _reasons(rows, row_of, step_at)
    row_of = row_of[reason == _COUNTS]
    wall_ns = _per_rank(_integers(rows, "wall_ns"), row_of, absent=-1)
    warm_up = count_warm_up(wall_ns.max(axis=1)) if len(row_of) else 0
    counts = np.flatnonzero(reason == _COUNTS)[warm_up:]
    row_of, wall_ns = row_of[warm_up:], wall_ns[warm_up:]

    critical = row_of[np.arange(len(row_of)), wall_ns.argmax(axis=1)] if len(row_of) else row_of[:0]
    critical = critical.reshape(-1)
    return CountedSteps(
        step=numbers[counts],
        wall_ns=_integers(rows, "wall_ns")[critical],
        critical_rank=rank[critical],
        phase_ns=_phases(rows, critical),
        recompute_ns=_integers(rows, "recompute_ns")[critical],
        samples=_total(rows, "samples", row_of),
        tokens=_total(rows, "tokens", row_of),
        recorded=len(numbers),
        excluded={
            Exclusion.INCOMPLETE: int((reason == _INCOMPLETE).sum()),
            Exclusion.PROFILED: int((reason == _PROFILED).sum()),
            Exclusion.SKIPPED: int((reason == _SKIPPED).sum()),
            Exclusion.WARM_UP: warm_up,
        },
        repeated=repeated,
    )


def last_attempts(rows: pa.Table) -> tuple[pa.Table, int]:
    """One row for each rank and step, the last that was written; how many steps had others."""
    rank, step = _integers(rows, "rank"), _integers(rows, "step")
    is_last = np.ones(len(rank), dtype=bool)
    is_last[:-1] = (rank[1:] != rank[:-1]) | (step[1:] != step[:-1])
    if is_last.all():
        return rows, 0
    return rows.filter(pa.array(is_last)), len(np.unique(step[~is_last]))


_COUNTS, _INCOMPLETE, _PROFILED, _SKIPPED = range(4)


def _reasons(rows: pa.Table, row_of: Integers, step_at: npt.NDArray[np.intp]) -> Integers:
    """For each step whether it counts so far, or the first reason against it."""
    reason = np.full(len(row_of), _COUNTS, dtype=np.int64)
    for flag, code in (("skipped", _SKIPPED), ("profiled", _PROFILED)):
        flagged = rows[flag].to_numpy()
        reason[np.unique(step_at[flagged])] = code
    present = (row_of >= 0).sum(axis=1)
    if len(present):
        reason[present < np.median(present)] = _INCOMPLETE
    return reason


def _per_rank(values: Integers, row_of: Integers, *, absent: int) -> Integers:
    """The values of a column, steps down and ranks across."""
    spread: Integers = np.where(row_of >= 0, values[row_of], absent)
    return spread


def _phases(rows: pa.Table, critical: Integers) -> dict[Phase, Integers]:
    """Phases of the chosen rows; what no phase claims is `other`, so that they sum to the wall."""
    named: dict[Phase, Integers] = {
        phase: _integers(rows, column)[critical]
        for phase, column in PHASE_COLUMNS.items()
        if phase is not Phase.OTHER
    }
    claimed = np.sum(list(named.values()), axis=0)
    return {**named, Phase.OTHER: _integers(rows, "wall_ns")[critical] - claimed}


def _total(rows: pa.Table, column: str, row_of: Integers) -> Integers | None:
    """The sum over ranks in each step; None unless every row of these steps has a value."""
    if not row_of.size:
        return None
    values = rows[column].combine_chunks()
    known = values.is_valid().to_numpy(zero_copy_only=False)
    if not known[row_of[row_of >= 0]].all():
        return None
    total: Integers = _per_rank(_filled(values), row_of, absent=0).sum(axis=1)
    return total


def _filled(values: pa.Array) -> Integers:
    filled: Integers = values.fill_null(0).to_numpy(zero_copy_only=False)
    return filled


def _integers(rows: pa.Table, column: str) -> Integers:
    numbers: Integers = rows[column].to_numpy().astype(np.int64, copy=False)
    return numbers
