"""How much the steps of a run depend on each other: what their number is worth.

Neighbouring steps share their weather, so n steps say less about the median than n independent
ones would. The dependence time τ is the sum of the autocorrelation over all lags, forwards and
backwards: n steps are worth n/τ independent ones, and τ is 1 where there is no dependence.

τ is estimated as if the series were a first-order autoregression, whose lag-1 correlation φ gives
τ = (1+φ)/(1-φ), with Kendall's correction for the bias of φ. A slow drift under quick noise hides
from lag 1; it shows in the means of neighbours. So the estimate is repeated for means of 2, 4, 8, …
steps while there are enough of them, and the largest counts: an error here is on the careful side.
Values further than three deviations from the median are drawn in to there, so that a spike does not
pass for independence.
"""

import numpy as np
import numpy.typing as npt

from probe.analyse.steps.warm_up import DEVIATIONS_PER_MAD

Floats = npt.NDArray[np.float64]

DRAWN_IN_DEVIATIONS = 3.0
LEAST_MEANS = 16
"""Fewer means than this say nothing about the dependence between them."""
LARGEST_CORRELATION = 0.97
LEAST_STEPS = 6
"""Of fewer steps no dependence can be told."""


def median_deviation(values: Floats) -> float:
    """MAD: half of the values lie this near to the median."""
    return float(np.median(np.abs(values - np.median(values))))


def lag_one(values: Floats) -> float:
    """The correlation φ between neighbours, without spikes, at least 0."""
    return _correlation(_drawn_in(values))


def dependence_time(values: Floats) -> float:
    """τ: how many steps are worth one independent step; at most half of them."""
    count = len(values)
    calm = _drawn_in(values)
    variance = float(calm.var())
    if count < LEAST_STEPS or not variance:
        return 1.0
    largest = 1.0
    length = 1
    while length == 1 or count // length >= LEAST_MEANS:
        means = calm[: count // length * length].reshape(-1, length).mean(axis=1)
        unbiased = means.var() * len(means) / (len(means) - 1)
        correlation = _correlation(means)
        ratio = length * unbiased / variance
        largest = max(largest, float(ratio * (1 + correlation) / (1 - correlation)))
        length *= 2
    return min(largest, count / 2)


def _drawn_in(values: Floats) -> Floats:
    """Distances from the median, so that equal values are exactly zero, bounded."""
    reach = DRAWN_IN_DEVIATIONS * DEVIATIONS_PER_MAD * median_deviation(values)
    distances: Floats = values - np.median(values)
    return np.clip(distances, -reach, reach) if reach else distances


def _correlation(values: Floats) -> float:
    count = len(values)
    centred = values - values.mean()
    power = float(centred @ centred)
    if count < LEAST_STEPS or not power:
        return 0.0
    raw = float(centred[1:] @ centred[:-1]) / power
    # A short series around its own mean looks less dependent than it is (Kendall 1954).
    unbiased = (raw * count + 1) / (count - 4)
    return min(LARGEST_CORRELATION, max(0.0, unbiased))
