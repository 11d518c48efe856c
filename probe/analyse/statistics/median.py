"""The median of a series of steps, and how far it may stray: the moving-block bootstrap.

Stretches ("blocks") of neighbouring steps are drawn with replacement and laid end to end to a
series as long as the first; the spread of the medians of many such series is the standard error. A
block keeps the dependence within it, so its length follows the dependence time τ of the series:
(√6·φ/(1-φ²))^⅔ · n^⅓ with φ = (τ-1)/(τ+1), one for independent steps, a quarter of them at most.

What blocks of that length still lose of the dependence, and what is lost because they are drawn
around the sample's own median, is known for an autoregression and is given back as a factor. The
standard error has the effective number of steps less one as its degrees of freedom.

All is in logarithms, so that a difference is the logarithm of a ratio. The draws come from a fixed
seed: the same run gives the same figures.
"""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from probe.analyse.statistics.dependence import Floats, dependence_time, lag_one, median_deviation

DRAWS = 1000
SEED = 20240229
VALUES_AT_ONCE = 1 << 21
"""Bound on what is resampled in one piece, so that memory stays small."""
MOST_VALUES = 4_000_000
"""Bound on what is resampled in all: a long run gets fewer draws, down to the fewest."""
FEWEST_DRAWS = 300
LEAST_SPARED = 0.2
"""The effective number of steps is never taken to leave less than this share of the variance."""


@dataclass(frozen=True, kw_only=True)
class MedianEstimate:
    """The median over the counted steps of one run."""

    count: int
    median: float
    noise: float
    """MAD / median: half of the steps lie that near."""
    autocorrelation: float
    """Between neighbouring steps; at least 0."""
    effective_count: float
    """How many independent steps the counted ones are worth."""
    block: int
    """Length of the blocks, in steps."""
    standard_error: float
    """Of the logarithm of the median, within this one run."""

    @property
    def log_median(self) -> float:
        """The logarithm of the median."""
        return math.log(self.median)

    @property
    def degrees(self) -> float:
        """Degrees of freedom of the standard error; at least 1."""
        return max(1.0, self.effective_count - 1)


def estimate_median(values: Floats) -> MedianEstimate | None:
    """The median of positive values in the order of the steps; None for fewer than two."""
    if len(values) < 2 or not (values > 0).all():
        return None
    logs = np.log(values)
    count = len(logs)
    time = dependence_time(logs)
    block = block_length(count, time)
    variance = float(_resampled_medians(logs, block).var())
    variance *= _lost_in_blocks(block, time) / max(LEAST_SPARED, 1 - time / count)
    median = float(np.median(values))
    return MedianEstimate(
        count=count,
        median=median,
        noise=median_deviation(values) / median,
        autocorrelation=lag_one(logs),
        effective_count=count / time,
        block=block,
        standard_error=math.sqrt(variance),
    )


def block_length(count: int, dependence: float) -> int:
    """Length of the blocks for a series of this length and dependence time."""
    correlation = (dependence - 1) / (dependence + 1)
    pull = math.sqrt(6) * correlation / (1 - correlation**2)
    wanted = math.pow(pull, 2 / 3) * math.pow(count, 1 / 3)
    return max(1, min(round(wanted), count // 4))


def _resampled_medians(values: Floats, block: int) -> Floats:
    """The medians of series made of blocks of this one."""
    count = len(values)
    blocks = -(-count // block)
    draws = max(FEWEST_DRAWS, min(DRAWS, MOST_VALUES // count))
    chance = np.random.default_rng(SEED)
    within = np.arange(block)
    medians = []
    # Half the precision is plenty for a spread, and twice as fast to partition.
    light = (values - values.mean()).astype(np.float32)
    at_once = max(1, VALUES_AT_ONCE // count)
    for first in range(0, draws, at_once):
        turns = min(at_once, draws - first)
        starts = chance.integers(0, count - block + 1, size=(turns, blocks))
        picked = light[(starts[:, :, None] + within).reshape(turns, -1)[:, :count]]
        medians.append(_medians(picked))
    return np.concatenate(medians)


def _medians(rows: npt.NDArray[np.float32]) -> Floats:
    """The median of each row, in a fifth of the time that numpy's own takes."""
    middle = rows.shape[1] // 2
    rows.partition(middle, axis=1)
    medians: Floats = rows[:, middle].astype(np.float64)
    if rows.shape[1] % 2 == 0:
        medians = (medians + rows[:, :middle].max(axis=1)) / 2
    return medians


def _lost_in_blocks(block: int, dependence: float) -> float:
    """Variance of an autoregression's mean over what blocks of this length show of it."""
    correlation = (dependence - 1) / (dependence + 1)
    unseen = 2 * correlation * (1 - correlation**block) / (block * (1 - correlation) ** 2)
    return dependence / (dependence - unseen)
