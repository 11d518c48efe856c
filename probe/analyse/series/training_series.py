"""What training came to, step by step: loss, gradient norm, loss scale, and what happened to it.

The loss is the mean over the ranks that state one and the norm their largest; nan if either was on
any rank. The scale changes in the update at the end of a step: `raised` and `lowered` mark the
step whose update did it. A step that overflowed without lowering the scale spent hysteresis.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from probe.analyse.steps.by_step import STEP_STORY_COLUMNS, story_of_steps
from probe.analyse.steps.steps import Integers, last_attempts

TRAINING_SERIES_COLUMNS = (*STEP_STORY_COLUMNS, "loss", "grad_norm", "lr", "hysteresis_left")
"""Columns of the steps table that `training_series` reads."""

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True, eq=False)
class TrainingSeries:
    """One entry a recorded step in every array; the masks say where a value was stated."""

    step: Integers
    loss: Floats
    has_loss: Flags
    """A loss that is nan and one that was never stated are not the same."""
    grad_norm: Floats
    has_grad_norm: Flags
    scale: Floats
    """The scale used in the step; nan where none is stated."""
    overflowed: Flags
    without_gradient: Flags
    """Skipped because there was nothing to apply."""
    raised: Flags
    lowered: Flags
    hysteresis_spent: Flags
    hysteresis_left: Floats
    """nan where none is stated."""

    def __len__(self) -> int:
        return len(self.step)


def training_series(steps: pa.Table) -> TrainingSeries:
    """The series of rows sorted by rank and step."""
    story = story_of_steps(steps)
    rows, _ = last_attempts(steps)
    at = np.searchsorted(story.step, rows["step"].to_numpy())
    loss, has_loss = _over_ranks(rows["loss"], at, len(story), largest=False)
    norm, has_norm = _over_ranks(rows["grad_norm"], at, len(story), largest=True)
    left, has_left = _over_ranks(rows["hysteresis_left"], at, len(story), largest=False)
    with np.errstate(invalid="ignore"):
        raised = story.scale_next > story.scale
        lowered = story.scale_next < story.scale
    stated = ~np.isnan(story.scale)
    return TrainingSeries(
        step=story.step,
        loss=loss,
        has_loss=has_loss,
        grad_norm=norm,
        has_grad_norm=has_norm,
        scale=story.scale,
        overflowed=story.overflowed,
        without_gradient=story.skipped & ~story.overflowed,
        raised=raised,
        lowered=lowered,
        hysteresis_spent=story.overflowed & stated & ~lowered,
        hysteresis_left=np.where(has_left, left, np.nan),
    )


def _over_ranks(
    column: pa.ChunkedArray, at: npt.NDArray[np.intp], steps: int, *, largest: bool
) -> tuple[Floats, Flags]:
    """Mean or maximum of the stated values of each step, and whether there is any."""
    stated = column.is_valid().to_numpy()
    values = column.to_numpy()[stated].astype(np.float64, copy=False)
    place = at[stated]
    count = np.bincount(place, minlength=steps)
    with np.errstate(invalid="ignore"):
        if largest:
            result = np.full(steps, -np.inf)
            np.maximum.at(result, place, values)  # nan wins, as it should
        else:
            result = np.bincount(place, weights=values, minlength=steps) / np.maximum(1, count)
    return np.where(count > 0, result, np.nan), count > 0
