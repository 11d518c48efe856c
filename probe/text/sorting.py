"""Written numbers as numbers again, so that a table of texts sorts by what it says.

Tables are written once, for the terminal and for pages. Where a page lets a person sort a column,
"9 ms" has to come before "1.2 s"; the texts follow the rules of `probe.units`, so they can be read
back. A column with a cell that is no number stays text.
"""

import math
import re
from collections.abc import Sequence

from probe.units import MISSING

_WRITTEN = re.compile(
    r"""(?P<bound>[<>]?)
        (?P<sign>[+-]?)
        (?:2\^(?P<power>\d+) | (?P<number>\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?) | (?P<word>nan|inf))
        \s?(?P<unit>%|[a-zA-Zµ]*×?)(?:/s)?""",
    re.VERBOSE,
)
_COUNTS = {"k": 1e3, "M": 1e6, "B": 1e9, "T": 1e12, "Q": 1e15}
_PLAIN = {"": 1.0, "%": 0.01, "×": 1.0, **{f"{unit}×": size for unit, size in _COUNTS.items()}}
_BYTES = {"B": 1.0, "kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12, "PB": 1e15, "EB": 1e18}
_DURATIONS = {
    "ns": 1e-9,
    "µs": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "min": 60.0,
    "h": 3600.0,
    "d": 86400.0,
    "y": 365.25 * 86400,
}
_KINDS = (_PLAIN, _PLAIN | _COUNTS, _BYTES, _DURATIONS)
"""Each is tried for a whole column: a "B" is a byte among bytes and a billion among counts."""


def numbers_in(column: Sequence[str]) -> list[float | None] | None:
    """The column's values, None where nothing stands; None if it is no column of numbers."""
    written = [_WRITTEN.fullmatch(text.strip()) for text in column]
    empty = [text.strip() in ("", MISSING) for text in column]
    if all(empty) or any(
        match is None and not nothing for match, nothing in zip(written, empty, strict=True)
    ):
        return None
    units = {match["unit"] for match in written if match}
    for kind in _KINDS:
        if units <= kind.keys():
            return [match and _value(match, kind) for match in written]
    return None


def _value(match: re.Match[str], unit_of: dict[str, float]) -> float:
    if match["word"]:
        value = math.inf if match["word"] == "inf" else math.nan
    elif match["power"]:
        value = 2.0 ** int(match["power"])
    else:
        value = float(match["number"].replace(",", ""))
    value = math.copysign(value, -1) if match["sign"] == "-" else value
    if match["bound"]:  # "<0.1 %" is less than "0.1 %", and more than nothing.
        value /= 2
    return value * unit_of[match["unit"]]
