"""A series of numbers in one word: ▁▂▅▇█."""

import math
from collections.abc import Sequence

_BARS = "▁▂▃▄▅▆▇█"
_NOTHING = "·"
"""Where there is no number to show."""


def sparkline(
    values: Sequence[float], *, low: float | None = None, high: float | None = None
) -> str:
    """One bar a value, from the lowest to the highest, or between bounds that several share."""
    finite = [value for value in values if math.isfinite(value)]
    if not finite:
        return _NOTHING * len(values)
    low = min(finite) if low is None else low
    high = max(finite) if high is None else high
    return "".join(_bar(value, low, high) for value in values)


def share_bar(value: float, largest: float, *, width: int) -> str:
    """A bar of blocks whose length is a value's share of the largest; at least one eighth."""
    if not value or not largest:
        return ""
    eighths = max(1, round(abs(value) / largest * width * 8))
    whole, rest = divmod(eighths, 8)
    return "█" * whole + ("▏▎▍▌▋▊▉"[rest - 1] if rest else "")


def _bar(value: float, low: float, high: float) -> str:
    if not math.isfinite(value):
        return _NOTHING
    if high <= low:
        return _BARS[0]
    share = min(1.0, max(0.0, (value - low) / (high - low)))
    return _BARS[round(share * (len(_BARS) - 1))]
