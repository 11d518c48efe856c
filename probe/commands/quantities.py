"""Numbers as people write them: 7e9 or 7B parameters, 80GB or 80GiB of memory."""

import re

from probe.errors import UsageError

_COUNTS = {"": 1, "k": 10**3, "m": 10**6, "b": 10**9, "g": 10**9, "t": 10**12}
_BYTES = {
    "": 1,
    "b": 1,
    **{f"{letter}b": 1000**power for power, letter in enumerate("kmgt", 1)},
    **{f"{letter}ib": 1024**power for power, letter in enumerate("kmgt", 1)},
}
_WRITTEN = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(e[+-]?\d{1,2})?\s*([a-z]*)", re.IGNORECASE)


def parse_count(written: str) -> int:
    """A number of things: 7e9, 7B."""
    return _parsed(written, _COUNTS, "count", "7e9, 7B or 350M")


def parse_memory(written: str) -> int:
    """An amount of memory in bytes: 80GB is 80·10^9, 80GiB is 80·2^30."""
    return _parsed(written, _BYTES, "size", "80GB (80·10^9 bytes) or 80GiB (80·2^30)")


def _parsed(written: str, units: dict[str, int], kind: str, example: str) -> int:
    match = _WRITTEN.fullmatch(written.strip())
    size = units.get(match[3].lower()) if match else None
    if match is None or size is None:
        raise UsageError(f"{written!r} is no {kind}; write it as {example}.")
    number = float(match[1] + (match[2] or "")) * size
    if not 1 <= number < 2**63:
        raise UsageError(f"{written!r} is out of range for a {kind}.")
    return round(number)
