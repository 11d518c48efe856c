"""Conditions under which a gate fails, as people write them.

step_time>+5%      relative to the first side (a sign and a percent sign)
wire_bytes>+10MB   absolute, against the first side (a sign)
skipped>0          the value of the later side itself (no sign)
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from probe.analyse.compare.measure import MEASURES, METRIC, MeasureUnit
from probe.errors import UsageError

_CONDITION = re.compile(
    r"\s*(?P<measure>[A-Za-z_][\w./ -]*?)\s*(?P<operator><=|>=|<|>)\s*"
    r"(?P<sign>[+-]?)\s*(?P<number>\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|\.\d+)\s*(?P<unit>[^\s]*)\s*"
)
_SIZES = {
    MeasureUnit.NANOSECONDS: {
        "ns": 1.0, "us": 1e3, "µs": 1e3, "ms": 1e6, "s": 1e9, "min": 60e9,
    },
    MeasureUnit.BYTES: {
        "B": 1.0, "kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12,
        "KiB": 2.0**10, "MiB": 2.0**20, "GiB": 2.0**30, "TiB": 2.0**40,
    },
    MeasureUnit.RATE: {"/s": 1.0, "": 1.0},
    MeasureUnit.COUNT: {"": 1.0},
    MeasureUnit.NUMBER: {"": 1.0},
}  # fmt: skip
UNIT_OF = {
    "step_time": MeasureUnit.NANOSECONDS,
    "exposed_time": MeasureUnit.NANOSECONDS,
    "throughput": MeasureUnit.RATE,
    "peak_memory": MeasureUnit.BYTES,
    "host_memory": MeasureUnit.BYTES,
    "wire_bytes": MeasureUnit.BYTES,
    "skipped": MeasureUnit.COUNT,
}


class Against(StrEnum):
    """What the threshold of a condition is measured from."""

    RELATIVE = "relative"
    DIFFERENCE = "difference"
    VALUE = "value"


@dataclass(frozen=True, kw_only=True)
class Condition:
    """One condition under which the gate fails."""

    text: str
    measure: str
    above: bool
    """Fails above the threshold; below it otherwise."""
    inclusive: bool
    against: Against
    threshold: float
    """A fraction if relative, else in the unit of the measure."""


def parse_conditions(text: str) -> tuple[Condition, ...]:
    """The conditions of a text with commas between them."""
    parts = [part for part in text.split(",") if part.strip()]
    if not parts:
        raise UsageError(
            "The gate is empty; write conditions such as 'step_time>+5%,peak_memory>+2%,skipped>0'."
        )
    return tuple(map(parse_condition, parts))


def parse_condition(text: str) -> Condition:
    """One condition such as step_time>+5%."""
    text = text.strip()
    match = _CONDITION.fullmatch(text)
    if match is None:
        raise UsageError(
            f"{text!r} is no condition; write a measure, < or >, and a threshold: step_time>+5%."
        )
    measure = match["measure"]
    if measure not in MEASURES and not measure.startswith(METRIC):
        raise UsageError(
            f"There is no measure {measure!r} in {text!r}; there are {', '.join(MEASURES)} and "
            f"{METRIC}NAME for what the run logged."
        )
    sign = -1.0 if match["sign"] == "-" else 1.0
    number = sign * float(match["number"])
    unit = match["unit"]
    if unit == "%":
        if not match["sign"]:
            raise UsageError(
                f"{text!r} could mean up or down; write +{match['number']}% or -{match['number']}%."
            )
        against, threshold = Against.RELATIVE, number / 100
        if threshold <= -1:
            raise UsageError(f"{text!r} can never hold: nothing falls by 100 % or more.")
    else:
        against = Against.DIFFERENCE if match["sign"] else Against.VALUE
        threshold = number * _size(text, measure, unit)
    return Condition(
        text=text,
        measure=measure,
        above=match["operator"].startswith(">"),
        inclusive=match["operator"].endswith("="),
        against=against,
        threshold=threshold,
    )


def conditions_of(document: Mapping[str, object], source: str) -> tuple[Condition, ...]:
    """The conditions of a parsed TOML or JSON file: `fail-if`, a list or a table of them."""
    stated = document.get("fail-if", document.get("fail_if"))
    if isinstance(stated, str):
        return parse_conditions(stated)
    if isinstance(stated, Mapping):
        texts = [f"{measure}{bound}" for measure, bound in stated.items()]
    elif isinstance(stated, Sequence):
        texts = [str(item) for item in stated]
    else:
        raise UsageError(
            f'{source} states no gate; write fail-if = ["step_time>+5%", "skipped>0"].'
        )
    if not texts:
        raise UsageError(f"{source} has an empty fail-if; name at least one condition.")
    return tuple(map(parse_condition, texts))


def _size(text: str, measure: str, unit: str) -> float:
    sizes = _SIZES[UNIT_OF.get(measure, MeasureUnit.NUMBER)]
    if unit in sizes:
        return sizes[unit]
    known = ", ".join(name for name in sizes if name)
    if known and not unit:
        raise UsageError(f"{text!r} needs a unit: {known}, or % with a sign.")
    also = f"{known} and %" if known else "only %, or none"
    raise UsageError(f"{unit!r} in {text!r} is no unit of {measure}; it takes {also}.")
