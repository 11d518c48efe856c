"""How many of a run's first steps are warm-up: caches, allocator and prefetch order still settle.

The settled level is the median wall time of the later half of the steps. A step has settled when
it and the median of the window that it begins both lie within a tolerance of that level; warm-up is
what comes before the first such step. The tolerance is three standard deviations, estimated from
the later half by 1.4826 × MAD so that spikes do not widen it, and at least 5 % of the level.

At most half of the steps are warm-up: a run that never settles keeps its later half.
"""

import numpy as np
import numpy.typing as npt

LEAST_TOLERANCE = 0.05
TOLERANCE_DEVIATIONS = 3.0
DEVIATIONS_PER_MAD = 1.4826
"""What turns a median absolute deviation into the standard deviation of a normal spread."""
WIDEST_WINDOW_STEPS = 5


def count_warm_up(wall_ns: npt.NDArray[np.int64]) -> int:
    """Steps at the beginning that are warm-up; `wall_ns` holds comparable steps in their order."""
    count = len(wall_ns)
    if count < 2:
        return 0
    later = wall_ns[count // 2 :]
    level = float(np.median(later))
    deviation = DEVIATIONS_PER_MAD * float(np.median(np.abs(later - level)))
    tolerance = max(LEAST_TOLERANCE * level, TOLERANCE_DEVIATIONS * deviation)
    window = _window_steps(count)
    for first in range(count // 2):
        begun = wall_ns[first : first + window]
        if abs(wall_ns[first] - level) <= tolerance and abs(np.median(begun) - level) <= tolerance:
            return first
    return count // 2


def _window_steps(count: int) -> int:
    """An odd window of at most a quarter of the steps, so that short runs have one too."""
    return min(WIDEST_WINDOW_STEPS, max(1, count // 4) // 2 * 2 + 1)
