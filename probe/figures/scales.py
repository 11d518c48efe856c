"""Values in a unit that fits an axis, as small arrays that travel as bytes.

A figure holds numpy arrays only: 32-bit whole numbers for steps, 32-bit floats for the rest, which
Plotly sends as base64. Lists of Python numbers would be four times as long.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

_TIMES = (("ns", 1.0), ("µs", 1e3), ("ms", 1e6), ("s", 1e9), ("min", 60e9), ("h", 3600e9))
_SIZES = (("B", 1.0), ("kB", 1e3), ("MB", 1e6), ("GB", 1e9), ("TB", 1e12))

Numbers = npt.NDArray[np.floating[Any]] | npt.NDArray[np.integer[Any]]


@dataclass(frozen=True, kw_only=True)
class Unit:
    """One unit for all values of an axis."""

    name: str
    size: float

    def of(self, values: Numbers | float) -> npt.NDArray[np.float32]:
        """The values in this unit."""
        return np.asarray(np.asarray(values, dtype=np.float64) / self.size, dtype=np.float32)


def time_unit(*values: Numbers | float) -> Unit:
    """The unit in which the largest of these nanoseconds is at least two."""
    return _fitting(_TIMES, values)


def size_unit(*values: Numbers | float) -> Unit:
    """The unit in which the largest of these bytes is at least two."""
    return _fitting(_SIZES, values)


def rate_unit(*values: Numbers | float) -> Unit:
    """The same for bytes a second."""
    unit = _fitting(_SIZES, values)
    return Unit(name=f"{unit.name}/s", size=unit.size)


def small_floats(values: Numbers) -> npt.NDArray[np.float32]:
    """As 32-bit floats; what they cannot hold is no number."""
    with np.errstate(over="ignore"):
        return values.astype(np.float32)


def small_steps(steps: Numbers) -> npt.NDArray[np.int32] | npt.NDArray[np.float64]:
    """Step numbers as 32-bit integers, or as floats if there is one that no integer holds."""
    if len(steps) and np.abs(steps).max() > np.iinfo(np.int32).max:
        return steps.astype(np.float64)
    return steps.astype(np.int32)


def _fitting(units: tuple[tuple[str, float], ...], values: tuple[Numbers | float, ...]) -> Unit:
    largest = 0.0
    for item in values:
        finite = np.abs(np.asarray(item, dtype=np.float64).reshape(-1))
        finite = finite[np.isfinite(finite)]
        largest = max(largest, float(finite.max()) if len(finite) else 0.0)
    name, size = next(
        ((name, size) for name, size in reversed(units) if largest >= 2 * size), units[0]
    )
    return Unit(name=name, size=size)
