"""A long series in a few strokes: what a sparkline shows."""

import numpy as np
import numpy.typing as npt

STRETCHES = 24


def outline(
    values: npt.NDArray[np.float64] | npt.NDArray[np.int64], stretches: int = STRETCHES
) -> tuple[float, ...]:
    """Medians of equal stretches, in order; the values themselves if they are as few."""
    return tuple(
        float(np.median(stretch))
        for stretch in np.array_split(values, min(stretches, max(1, len(values))))
        if len(stretch)
    )
