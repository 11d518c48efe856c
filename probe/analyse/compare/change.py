"""One side against another: the ratio of their medians, its interval, and what may be said of it.

The run is the unit. With one run a side and no history the standard error is that of the steps
within the runs, and what the next start of the same program would give is unknown (`between_runs`
is None); with a history (`history`) the spread of those runs is the error of each. With several
runs on a side, the logarithm of its median is the mean over its runs, and the spread of the
runs' medians, pooled over the sides, is the error (never taken below that within the runs); a side
of one run borrows it from the other. Degrees of freedom are those of the pooled spread, or Welch's.

A difference is material beyond ±2 %. The verdict is `slower` only if the whole interval lies beyond
the band, `same` only if it lies within, else `inconclusive`.
"""

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from probe.analyse.compare.history import KnownSpread, pooled_spread
from probe.analyse.statistics.median import MedianEstimate
from probe.analyse.statistics.student import probability_below, quantile

CONFIDENCE = 0.95
MATERIAL = 0.02
"""Relative differences up to this are not worth a word: the band of `same`."""
MOST_RUNS_ASKED = 30
MOST_TIMES_MORE = 100
"""Asking for more than this many times the steps says that steps are not what is missing."""


class Direction(StrEnum):
    """Where the interval of a ratio lies against the band."""

    HIGHER = "higher"
    LOWER = "lower"
    SAME = "same"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True, kw_only=True)
class Change:
    """B against A: the ratio of their medians."""

    ratio: float
    low: float
    """Lower end of the 95 % interval of the ratio."""
    high: float
    standard_error: float
    """Of the logarithm of the ratio."""
    degrees: float
    between_runs: float | None
    """Relative standard deviation between runs of a side; None with one run a side that has no
    history."""
    history: int
    """Runs beside the compared ones that tell it; 0 where the sides do."""
    runs: tuple[int, int]
    """Runs of A and of B."""
    direction: Direction
    more_steps: int | None
    """About how many more steps a run would settle an inconclusive verdict, with one run a side;
    None if it is settled, or if steps would not settle it."""
    more_runs: int | None
    """The same in runs a side."""

    def probability_at_least(self, ratio: float) -> float:
        """One-sided p-value against "the true ratio is at most this": small says it is more."""
        return self._tail(math.log(self.ratio) - math.log(ratio))

    def probability_at_most(self, ratio: float) -> float:
        """One-sided p-value against "the true ratio is at least this": small says it is less."""
        return self._tail(math.log(ratio) - math.log(self.ratio))

    def _tail(self, beyond: float) -> float:
        if not self.standard_error:
            return 0.0 if beyond > 0 else 1.0
        return probability_below(-beyond / self.standard_error, self.degrees)


def compare_medians(
    first: Sequence[MedianEstimate],
    second: Sequence[MedianEstimate],
    *,
    material: float = MATERIAL,
    known: KnownSpread | None = None,
) -> Change:
    """The change from the runs of A to the runs of B; each side has at least one.

    `known` is what other runs of the same setups tell; sides of several runs tell it themselves.
    """
    logs = [[item.log_median for item in side] for side in (first, second)]
    difference = float(np.mean(logs[1]) - np.mean(logs[0]))
    alone = len(first) == len(second) == 1
    if alone and known is None:
        between = spread = None
        error, degrees = _within(first[0], second[0])
    else:
        if alone and known is not None:
            between, degrees = known.deviation, known.degrees
        else:
            between, degrees = pooled_spread(logs)
        spread = max(between, math.sqrt(_mean_variance(first, second)))
        error = spread * math.sqrt(1 / len(first) + 1 / len(second))
    reach = quantile((1 + CONFIDENCE) / 2, degrees) * error
    low, high = difference - reach, difference + reach
    direction = _direction(low, high, material)
    more_steps = more_runs = None
    if direction is Direction.INCONCLUSIVE:
        margin = _margin(difference, material)
        if spread is None:
            count = max(first[0].count, second[0].count)
            more_steps = _more_steps(count, reach=reach, margin=margin)
        else:
            more_runs = _more_runs(min(len(first), len(second)), spread=spread, margin=margin)
    return Change(
        ratio=math.exp(difference),
        low=math.exp(low),
        high=math.exp(high),
        standard_error=error,
        degrees=degrees,
        between_runs=between,
        history=known.runs if alone and known is not None else 0,
        runs=(len(first), len(second)),
        direction=direction,
        more_steps=more_steps,
        more_runs=more_runs,
    )


def adjusted(probabilities: Sequence[float]) -> list[float]:
    """Holm's step-down: p-values that may be judged together as if each stood alone."""
    order = sorted(range(len(probabilities)), key=lambda index: probabilities[index])
    result = [0.0] * len(probabilities)
    largest = 0.0
    for place, index in enumerate(order):
        largest = max(largest, min(1.0, probabilities[index] * (len(order) - place)))
        result[index] = largest
    return result


def _within(first: MedianEstimate, second: MedianEstimate) -> tuple[float, float]:
    """Standard error and Welch's degrees of freedom for one run a side."""
    variances = [item.standard_error**2 for item in (first, second)]
    total = sum(variances)
    if not total:
        return 0.0, max(first.degrees, second.degrees)
    spread = sum(
        variance**2 / item.degrees
        for variance, item in zip(variances, (first, second), strict=True)
    )
    return math.sqrt(total), total**2 / spread


def _mean_variance(first: Sequence[MedianEstimate], second: Sequence[MedianEstimate]) -> float:
    return float(np.mean([item.standard_error**2 for item in (*first, *second)]))


def _direction(low: float, high: float, material: float) -> Direction:
    if low > math.log1p(material):
        return Direction.HIGHER
    if high < math.log1p(-material):
        return Direction.LOWER
    if low >= math.log1p(-material) and high <= math.log1p(material):
        return Direction.SAME
    return Direction.INCONCLUSIVE


def _margin(difference: float, material: float) -> float:
    """How far the estimate lies from the nearest edge of the band."""
    return min(abs(difference - math.log1p(material)), abs(difference - math.log1p(-material)))


def _more_steps(count: int, *, reach: float, margin: float) -> int | None:
    """Steps a run beyond those there are, for the interval to shrink to the margin."""
    times = (reach / margin) ** 2 if margin else math.inf
    return None if times > MOST_TIMES_MORE else math.ceil(count * (times - 1))


def _more_runs(least: int, *, spread: float, margin: float) -> int | None:
    """Runs a side beyond those there are, for Student's interval to shrink to the margin."""

    def settles(runs: int) -> bool:
        degrees = 2 * (runs - 1)
        return quantile((1 + CONFIDENCE) / 2, degrees) * spread * math.sqrt(2 / runs) <= margin

    if least >= MOST_RUNS_ASKED or not settles(MOST_RUNS_ASKED):
        return None
    # More runs only ever shrink it: the first number that settles is found by halving.
    return bisect_left(range(least + 1, MOST_RUNS_ASKED + 1), True, key=settles) + 1
