"""A line without its noise: an exponential mean that knows how many values it has seen.

The weight of the past is from 0 (none) to below 1. The mean is corrected for its start, so that it
never leans towards zero; what is not finite is left out of it and stays where it is.
"""

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


def smoothed(values: Floats, weight: float) -> Floats:
    """The mean up to each value; always within the range of the finite values before it."""
    assert 0 <= weight < 1, weight
    result = np.array(values, dtype=np.float64)
    mean, seen = 0.0, 0.0
    for at, value in enumerate(result):
        if np.isfinite(value):
            mean = weight * mean + (1 - weight) * value
            seen = weight * seen + (1 - weight)
            result[at] = mean / seen
    return result
