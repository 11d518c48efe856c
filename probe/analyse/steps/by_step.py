"""Every recorded step as one entry for all its ranks, skipped and profiled ones included.

A flag holds if any rank raised it, the wall time is that of the slowest rank, samples add up. What
all ranks share (the loss scale) is taken from the lowest rank that states it. Of repeated steps
the last attempt stands.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from probe.analyse.steps.steps import Integers, last_attempts
from probe.schema.vocabulary import SkipReason

STEP_STORY_COLUMNS = (
    "rank",
    "step",
    "wall_ns",
    "samples",
    "loss_scale",
    "loss_scale_next",
    "clip_coefficient",
    "skipped",
    "skip_reason",
)
"""Columns of the steps table that `story_of_steps` reads."""

Flags = npt.NDArray[np.bool_]
Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)
class StepStory:
    """What became of each step, in order."""

    step: Integers
    wall_ns: Integers
    skipped: Flags
    overflowed: Flags
    """Skipped, and not for want of a gradient: an unstated reason is an overflow."""
    samples: Integers | None
    """None if a rank does not tell."""
    scale: Numbers
    """Loss scale used; nan where no rank states one."""
    scale_next: Numbers
    """Loss scale after the step's update; nan where no rank states one."""
    clip_coefficient: Numbers
    """Factor that clipping applied; nan where no rank states one."""

    def __len__(self) -> int:
        return len(self.step)


def story_of_steps(steps: pa.Table) -> StepStory:
    """Collapse rows sorted by rank and step to one entry a step."""
    rows, _ = last_attempts(steps)
    number: Integers = rows["step"].to_numpy()
    order = np.argsort(number, kind="stable")
    numbers, starts = np.unique(number[order], return_index=True)
    for_want_of_gradient = pc.equal(rows["skip_reason"], SkipReason.NO_GRADIENT.value)
    overflowed = pc.and_not(rows["skipped"], pc.fill_null(for_want_of_gradient, False))

    def of_any(flags: pa.ChunkedArray) -> Flags:
        return np.logical_or.reduceat(flags.to_numpy()[order], starts) if len(starts) else _NO_FLAGS

    def stated(column: str) -> Numbers:
        return _first_stated(rows[column], order, number, numbers)

    samples = rows["samples"]
    slowest = (
        np.maximum.reduceat(rows["wall_ns"].to_numpy()[order], starts) if len(starts) else number
    )
    return StepStory(
        step=numbers,
        wall_ns=slowest,
        skipped=of_any(rows["skipped"]),
        overflowed=of_any(overflowed),
        samples=None
        if samples.null_count or not len(starts)
        else np.add.reduceat(samples.to_numpy()[order], starts),
        scale=stated("loss_scale"),
        scale_next=stated("loss_scale_next"),
        clip_coefficient=stated("clip_coefficient"),
    )


_NO_FLAGS = np.zeros(0, dtype=np.bool_)


def _first_stated(
    column: pa.ChunkedArray, order: Integers, number: Integers, numbers: Integers
) -> Numbers:
    """For each step the value of the lowest rank that has one, else nan."""
    valid = column.is_valid().to_numpy()[order]
    values = column.fill_null(np.nan).to_numpy()[order][valid]
    found, first = np.unique(number[order][valid], return_index=True)
    stated = np.full(len(numbers), np.nan)
    stated[np.searchsorted(numbers, found)] = values[first]
    return stated
