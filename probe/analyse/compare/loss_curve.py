"""The loss of a run step by step, how it ended, and where two curves part.

The loss of a step is the mean over the ranks that state one; nan if it was on any rank. The final
loss is the mean over the last applied steps, a tenth of all and at most 20, so that it hangs on no
single batch.

Two curves are compared exactly, over the steps that both have: the first step with another value is
where they part by a bit (another order of summation is enough), the first that differs by more than
1 % is where they part for the eye. With equal seeds, data and arithmetic neither happens.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from probe.analyse.steps.steps import Integers, last_attempts

Floats = npt.NDArray[np.float64]

VISIBLE = 0.01
"""Relative difference of two losses from which they are called apart."""
FINAL_SHARE = 0.1
MOST_FINAL_STEPS = 20


@dataclass(frozen=True, kw_only=True, eq=False)
class LossCurve:
    """The loss of every step that states one."""

    step: Integers
    loss: Floats
    applied: npt.NDArray[np.bool_]
    """Whether no rank skipped the step."""


@dataclass(frozen=True, kw_only=True)
class LossParting:
    """Two curves over the steps that both have."""

    common_steps: int
    equal_steps: int
    """Steps whose losses are equal to the bit; nan equals nan."""
    first_unequal_step: int | None
    first_apart_step: int | None
    """The first step that differs by more than 1 %, or in which only one loss is finite."""
    last_common_step: int | None
    last_first: float | None
    """Loss of A in the last common step."""
    last_second: float | None


def loss_curve(steps: pa.Table) -> LossCurve:
    """The curve of rows sorted by rank and step; they need rank, step, loss and skipped."""
    rows, _ = last_attempts(steps)
    stated = rows["loss"].is_valid().to_numpy()
    number = rows["step"].to_numpy()
    skipped = np.unique(number[rows["skipped"].to_numpy()])
    step, at = np.unique(number[stated], return_inverse=True)
    loss = rows["loss"].to_numpy()[stated]
    total = np.bincount(at, weights=loss, minlength=len(step))
    return LossCurve(
        step=step.astype(np.int64, copy=False),
        loss=total / np.maximum(1, np.bincount(at, minlength=len(step))),
        applied=~np.isin(step, skipped),
    )


def final_loss(curve: LossCurve, *, last_step: int | None = None) -> float | None:
    """Mean over the last applied steps, up to a step if asked; None if none of them has a loss."""
    counts = curve.applied if last_step is None else curve.applied & (curve.step <= last_step)
    applied = curve.loss[counts]
    if not len(applied):
        return None
    steps = min(MOST_FINAL_STEPS, max(1, int(len(applied) * FINAL_SHARE)))
    return float(applied[-steps:].mean())


def losses_part(first: LossCurve, second: LossCurve) -> LossParting:
    """Where two curves part."""
    common, at_first, at_second = np.intersect1d(
        first.step, second.step, assume_unique=True, return_indices=True
    )
    left, right = first.loss[at_first], second.loss[at_second]
    equal = (left == right) | (np.isnan(left) & np.isnan(right))
    with np.errstate(invalid="ignore"):
        distance = np.abs(left - right)
        near = distance <= VISIBLE * np.maximum(np.abs(left), np.abs(right))
    finite = np.isfinite(left) & np.isfinite(right)
    return LossParting(
        common_steps=len(common),
        equal_steps=int(equal.sum()),
        first_unequal_step=_first(common, ~equal),
        first_apart_step=_first(common, ~equal & ~(near & finite)),
        last_common_step=int(common[-1]) if len(common) else None,
        last_first=float(left[-1]) if len(common) else None,
        last_second=float(right[-1]) if len(common) else None,
    )


def _first(steps: Integers, where: npt.NDArray[np.bool_]) -> int | None:
    found = np.flatnonzero(where)
    return int(steps[found[0]]) if len(found) else None
