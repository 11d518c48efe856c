"""Values in a unit that fits an axis, as small arrays that travel as bytes.

A figure holds numpy arrays only: 32-bit whole numbers for steps, 32-bit floats for the rest, which
Plotly sends as base64. Lists of Python numbers would be four times as long.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from probe.units import format_number

_TIMES = (("ns", 1.0), ("µs", 1e3), ("ms", 1e6), ("s", 1e9), ("min", 60e9), ("h", 3600e9))
MOST_TICKS = 6
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

    def bases(self, values: Numbers) -> list[float]:
        """Where bars begin, in this unit: Plotly sends these as text, so they are short."""
        return [float(f"{value / self.size:.6g}") for value in values.tolist()]


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


def heat_axis(steps: Numbers) -> str:
    """Linear where steps are evenly apart; else a column each, for a gap would be drawn as wide."""
    return "linear" if len(set(np.diff(steps).tolist())) <= 1 else "category"


def power_words(value: float) -> str:
    """2^16 where it is a power of two, else the number."""
    power = np.log2(value) if 0 < value < np.inf else np.nan
    return f"2^{int(power)}" if power == np.round(power) else format_number(value)


def power_axis(*scales: Numbers) -> dict[str, Any]:
    """A logarithmic axis for loss scales: ticks at powers of two, half a power of room around."""
    stated = np.concatenate([scale[(scale > 0) & np.isfinite(scale)] for scale in scales])
    if not len(stated):
        return {"type": "log"}
    low, high = (np.floor(np.log2(stated.min())), np.ceil(np.log2(stated.max())))
    every = max(1, int(np.ceil((high - low) / MOST_TICKS)))
    powers = np.arange(low, high + 1, every)
    return {
        "type": "log",
        "tickvals": (2.0**powers).tolist(),
        "ticktext": [f"2<sup>{int(power)}</sup>" for power in powers],
        "range": [float(np.log10(2) * (low - 0.5)), float(np.log10(2) * (high + 0.5))],
    }


def room_for_labels(values: npt.NDArray[np.float32]) -> list[float]:
    """The range of an axis whose bars have a text behind their ends."""
    largest = float(values.max()) if len(values) else 0.0
    return [0.0, (largest or 1.0) * 1.4]


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
