"""Every recorded step with its phases, those that count and those that do not, and why.

A step's time is that of its slowest rank, and its phases are those of the same rank, so that they
sum to it. Whether a step counts is `counted_steps`'s word; what is left out for another reason than
its flags is warm-up if it comes before the first step that counts, else incomplete.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from probe.analyse.steps.steps import COUNTING_COLUMNS, CountedSteps, Integers, last_attempts
from probe.schema.vocabulary import Phase

STEP_SERIES_COLUMNS = COUNTING_COLUMNS
"""Columns of the steps table that `step_series` reads."""


class Standing(StrEnum):
    """What a step is to the statistics."""

    COUNTED = "counted"
    WARM_UP = "warm_up"
    SKIPPED = "skipped"
    PROFILED = "profiled"
    INCOMPLETE = "incomplete"


@dataclass(frozen=True, kw_only=True, eq=False)
class StepSeries:
    """One entry a recorded step in every array, in order."""

    step: Integers
    wall_ns: Integers
    critical_rank: Integers
    phase_ns: Mapping[Phase, Integers]
    """They sum to `wall_ns` in every step."""
    elapsed_ns: Integers
    """Time from the first recorded step to the end of this one, counted as the sum of the steps."""
    tokens: Integers | None
    """Tokens of all ranks since the first recorded step; None if a rank does not tell."""
    standing: Mapping[Standing, npt.NDArray[np.bool_]]
    """Each step has exactly one."""

    def __len__(self) -> int:
        return len(self.step)


def step_series(steps: pa.Table, counted: CountedSteps) -> StepSeries:
    """The series of rows sorted by rank and step."""
    rows, _ = last_attempts(steps)
    rank, step = _integers(rows, "rank"), _integers(rows, "step")
    wall = _integers(rows, "wall_ns")
    # Per step the slowest rank first, the lowest of equals.
    order = np.lexsort((rank, -wall, step))
    numbers, first = np.unique(step[order], return_index=True)
    critical = order[first]
    phases: dict[Phase, Integers] = {
        phase: _integers(rows, f"{phase.value}_ns")[critical]
        for phase in Phase
        if phase is not Phase.OTHER
    }
    wall_ns = wall[critical]
    phases[Phase.OTHER] = wall_ns - np.sum(list(phases.values()), axis=0)
    tokens = _tokens(rows, step, numbers)
    return StepSeries(
        step=numbers,
        wall_ns=wall_ns,
        critical_rank=rank[critical],
        phase_ns=phases,
        elapsed_ns=np.cumsum(wall_ns),
        tokens=None if tokens is None else np.cumsum(tokens),
        standing=_standing(rows, step, numbers, counted),
    )


def _standing(
    rows: pa.Table, step: Integers, numbers: Integers, counted: CountedSteps
) -> dict[Standing, npt.NDArray[np.bool_]]:
    skipped = np.isin(numbers, step[rows["skipped"].to_numpy()])
    profiled = np.isin(numbers, step[rows["profiled"].to_numpy()])
    counts = np.isin(numbers, counted.step)
    rest = ~(counts | skipped | profiled)
    early = rest & (numbers < counted.step[0]) if len(counted) else np.zeros_like(rest)
    return {
        Standing.COUNTED: counts,
        Standing.WARM_UP: early,
        Standing.SKIPPED: skipped & ~counts & ~profiled,
        Standing.PROFILED: profiled & ~counts,
        Standing.INCOMPLETE: rest & ~early,
    }


def _tokens(rows: pa.Table, step: Integers, numbers: Integers) -> Integers | None:
    if rows["tokens"].null_count or not len(numbers):
        return None
    at = np.searchsorted(numbers, step)
    total = np.zeros(len(numbers), dtype=np.int64)
    np.add.at(total, at, _integers(rows, "tokens"))
    return total


def _integers(rows: pa.Table, column: str) -> Integers:
    numbers: Integers = rows[column].to_numpy().astype(np.int64, copy=False)
    return numbers
