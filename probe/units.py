"""How numbers are written for people: the same in the terminal, in a figure and on a page.

Three significant digits, a unit that fits, at most eight characters for anything a run can hold,
and the unit changes before a "1000 ms" can come up. Bytes are decimal: 1 GB is 10^9. Missing is
"–"; nan and the infinities are written as what they are.
"""

import time

MISSING = "–"
"""What stands where there was no value."""

_BYTES = (
    ("B", 1.0),
    ("kB", 1e3),
    ("MB", 1e6),
    ("GB", 1e9),
    ("TB", 1e12),
    ("PB", 1e15),
    ("EB", 1e18),
)
_COUNTS = (("", 1.0), ("k", 1e3), ("M", 1e6), ("B", 1e9), ("T", 1e12), ("Q", 1e15))
_SECOND, _MINUTE, _HOUR, _DAY = 1e9, 60e9, 3600e9, 86400e9
_YEAR = 365.25 * _DAY
_DURATIONS = (
    ("ns", 1.0),
    ("µs", 1e3),
    ("ms", 1e6),
    ("s", _SECOND),
    ("min", _MINUTE),
    ("h", _HOUR),
    ("d", _DAY),
    ("y", _YEAR),
)
_EXACT_BELOW = 10_000
_SIMULTANEOUS_NS = 5e9
"""A moment this near to now is now: clocks of two machines differ by as much."""


def format_bytes(amount: float | None) -> str:
    """Bytes in decimal units: 1.20 GB."""
    return _in_units(amount, _BYTES)


def format_duration(amount_ns: float | None) -> str:
    """Nanoseconds in the unit that fits: 151 ms, 2.30 s, 1.50 min."""
    return _in_units(amount_ns, _DURATIONS)


def format_count(number: float | None) -> str:
    """A number of things: exact below 10,000, then 20.1 M."""
    if number is not None and number == _whole(number) and abs(number) < _EXACT_BELOW:
        return f"{int(number):,}"
    return _in_units(number, _COUNTS).rstrip()


def format_exact(number: int | None) -> str:
    """A number of things to the last one: 20,123,456."""
    return MISSING if number is None else f"{number:,}"


def format_number(value: float | None) -> str:
    """A plain number such as a loss or a scale: 0.1234, 65,536, 2^30, nan."""
    if value is None:
        return MISSING
    if value == _whole(value):
        power = _power_of_two(int(value))
        if abs(value) < 1e6 or (power is not None and value < 1e8):
            return f"{int(value):,}"
        if power is not None:
            return f"2^{power}"
    short = f"{value:.4g}"
    return short if len(short) <= 8 else f"{value:.1e}"


def format_scale(scale: float | None) -> str:
    """A loss scale: 2^16 where it is a power of two beyond what one knows by heart, else plain."""
    if scale is not None and scale == _whole(scale) and scale > 1024:
        power = _power_of_two(int(scale))
        if power is not None:
            return f"2^{power}"
    return format_number(scale)


def format_percent(fraction: float | None) -> str:
    """A share of one: 98.7 %; what is there and too small to see is "<0.1 %"."""
    if fraction is None:
        return MISSING
    if not _is_finite(fraction):
        return str(float(fraction))
    percent = fraction * 100
    if 0 < abs(percent) < 0.05:
        return "<0.1 %" if percent > 0 else ">-0.1 %"
    if abs(percent) < 9999.5:
        return f"{percent:.{1 if abs(percent) < 999.95 else 0}f} %"
    return f"{percent:.0e} %"


def format_ratio(ratio: float | None) -> str:
    """How many times: 1.44×, 65.5 k×."""
    if ratio is None:
        return MISSING
    if not _is_finite(ratio):
        return str(float(ratio))
    if ratio == 0 or 0.01 <= abs(ratio) < 9999.5:
        return f"{_three_digits(ratio)}×"
    return f"{ratio:.0e}×" if abs(ratio) < 1 else f"{_in_units(ratio, _COUNTS)}×"


def format_moment(time_ns: int | None) -> str:
    """A moment on the wall clock, in local time: 2026-11-04 10:11:12."""
    if time_ns is None:
        return MISSING
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(time_ns // 10**9))


def format_age(time_ns: int | None, now_ns: int) -> str:
    """How long ago a moment is, in whole units: 12 s, 3 min, 5 h; "now" where it just was."""
    if time_ns is None:
        return MISSING
    age_ns = abs(now_ns - time_ns)
    if age_ns < _SIMULTANEOUS_NS:
        return "now"
    unit, size = next(
        (unit, size)
        for unit, size in reversed(_DURATIONS)
        if age_ns >= size and unit in ("s", "min", "h", "d", "y")
    )
    return f"{'' if time_ns < now_ns else '+'}{int(age_ns // size)} {unit}"


def format_ago(time_ns: int | None, now_ns: int) -> str:
    """The same as part of a sentence: 3 min ago, in 3 min."""
    age = format_age(time_ns, now_ns)
    if age in (MISSING, "now"):
        return age
    return f"in {age[1:]}" if age.startswith("+") else f"{age} ago"


def _whole(value: float) -> int | None:
    """The value as a whole number, if it is finite."""
    return int(value) if _is_finite(value) else None


def _power_of_two(whole: int) -> int | None:
    return whole.bit_length() - 1 if whole > 0 and whole.bit_count() == 1 else None


def _in_units(amount: float | None, units: tuple[tuple[str, float], ...]) -> str:
    """Three significant digits in the largest unit of which there is at least one."""
    if amount is None:
        return MISSING
    if not _is_finite(amount):
        return str(float(amount))
    sign, amount = ("-", -amount) if amount < 0 else ("", amount)
    for index, (unit, size) in enumerate(units):
        whole = size == 1.0 and amount == int(amount)
        digits = f"{amount:.0f}" if whole else _three_digits(amount / size)
        last = index + 1 == len(units)
        # Rounding can reach the next unit (999.9 ms): what is written decides, not what it was.
        if last or float(digits.replace(",", "")) < units[index + 1][1] / size:
            if last and amount / size >= 9999.5:
                digits = f"{amount / size:.0e}"
            return f"{sign}{digits} {unit}"
    raise AssertionError("the last unit takes everything")


def _three_digits(value: float) -> str:
    """At least three digits, and never more than are before the point."""
    size = abs(value)
    # The bounds are those at which rounding would add a digit.
    decimals = 2 if size < 9.995 else 1 if size < 99.95 else 0
    return f"{value:,.{decimals}f}"


def _is_finite(value: float) -> bool:
    return value - value == 0
