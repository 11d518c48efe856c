"""How far the mean or the median of a series of steps may lie from what the run does in the long.

The textbook's formulas, with n steps counted as n/τ (`dependence`). They are for telling a cost
from chance; a comparison, which decides between runs, resamples instead (`median`).
"""

import math

from probe.analyse.statistics.dependence import Floats, dependence_time, median_deviation
from probe.analyse.steps.warm_up import DEVIATIONS_PER_MAD

MEDIAN_OVER_MEAN = math.sqrt(math.pi / 2)
"""Standard error of the median of normal values over that of their mean."""


def error_of_mean(values: Floats) -> float:
    """One value says nothing of its error: infinite."""
    if len(values) < 2:
        return math.inf
    return float(values.std(ddof=1)) / math.sqrt(len(values) / dependence_time(values))


def error_of_median(values: Floats) -> float:
    """From the median deviation, so that late steps do not count for more than their number."""
    if len(values) < 2:
        return math.inf
    deviation = DEVIATIONS_PER_MAD * median_deviation(values)
    return MEDIAN_OVER_MEAN * deviation / math.sqrt(len(values) / dependence_time(values))
