"""One value as people write it, made into what its key asks for; or what it must be instead."""

import json
import math
import os
from collections.abc import Callable, Mapping
from numbers import Real
from typing import Any

from engine.config.key import Key, Kind
from probe.schema.vocabulary import Tier

AUTO = "auto"
LONGEST_SHOWN = 60

DTYPES = {
    "fp32": "fp32",
    "float32": "fp32",
    "float": "fp32",
    "fp16": "fp16",
    "float16": "fp16",
    "half": "fp16",
    "bf16": "bf16",
    "bfloat16": "bf16",
}
TIER_NAMES = {Tier.DEVICE: "none", Tier.HOST: "cpu", Tier.DISK: "nvme"}
TIERS = {name: tier for tier, name in TIER_NAMES.items()} | {tier.value: tier for tier in Tier}
"""DeepSpeed's names, and our own beside them."""


class WrongValueError(ValueError):
    """The value is not what its key asks for."""


def parsed(key: Key, raw: Any) -> Any:
    """The value in the type that `Config` holds; None where infinity means never."""
    value = PARSERS[key.kind](key, raw)
    if value is _WRONG:
        raise WrongValueError(f"{key.path} must be {requirement(key)}, not {shown(raw)}")
    return value


def requirement(key: Key) -> str:
    """What a key asks for, in words."""
    if key.kind is Kind.CHOICE:
        return " or ".join(f'"{choice}"' for choice in key.choices)
    words = "" if key.kind in (Kind.BOOL, Kind.DTYPE, Kind.TIER, Kind.TEXT) else "a "
    words += key.kind.value
    bounds = [
        f"{relation} {bound:g}"
        for relation, bound in (
            ("at least", key.least),
            ("above", key.above),
            ("at most", key.most),
            ("below", key.below),
        )
        if bound is not None
    ]
    if bounds:
        words += " " + " and ".join(bounds)
    return " or ".join([words, *(f'"{choice}"' for choice in key.choices)])


def shown(value: Any) -> str:
    """A value as it stands in a JSON file, cut to a length that a sentence bears."""
    try:
        text = json.dumps(value, default=str)
    except (ValueError, TypeError, RecursionError):
        return f"a {type(value).__name__} that cannot be shown"
    return text if len(text) <= LONGEST_SHOWN else text[: LONGEST_SHOWN - 1] + "…"


_WRONG = object()


def _bool(key: Key, raw: Any) -> Any:
    if isinstance(raw, str):
        return {"true": True, "false": False}.get(raw.strip().lower(), _WRONG)
    return bool(raw) if isinstance(raw, bool | int) and raw in (0, 1) else _WRONG


def _float(raw: Any) -> float:
    """The number that was meant; NaN for what is none."""
    if isinstance(raw, bool) or not isinstance(raw, Real | str):
        return math.nan
    try:
        return float(raw)
    except (ValueError, OverflowError):
        return math.nan


def _within(key: Key, number: float) -> bool:
    return (
        math.isfinite(number)
        and (key.least is None or number >= key.least)
        and (key.above is None or number > key.above)
        and (key.most is None or number <= key.most)
        and (key.below is None or number < key.below)
    )


def _number(key: Key, raw: Any) -> Any:
    if isinstance(raw, str) and raw in key.choices:
        return raw
    number = _float(raw)
    return number if _within(key, number) else _WRONG


def _count(key: Key, raw: Any) -> Any:
    number = _float(raw)
    if key.endless and number == math.inf:
        return None
    return int(number) if _within(key, number) and number == int(number) else _WRONG


def _numbers(key: Key, raw: Any) -> Any:
    if not isinstance(raw, list | tuple):
        return _number(key, raw)
    numbers = [_float(item) for item in raw]
    return numbers if numbers and all(_within(key, number) for number in numbers) else _WRONG


def _pair(key: Key, raw: Any) -> Any:
    if not isinstance(raw, list | tuple) or len(raw) != 2:
        return _WRONG
    first, second = (_float(item) for item in raw)
    return (first, second) if _within(key, first) and _within(key, second) else _WRONG


def _text(key: Key, raw: Any) -> Any:
    return os.fspath(raw) if isinstance(raw, str | os.PathLike) and os.fspath(raw) else _WRONG


def _choice(key: Key, raw: Any) -> Any:
    by_lower = {choice.lower(): choice for choice in key.choices}
    word = by_lower.get(raw.strip().lower()) if isinstance(raw, str) else None
    if word is None:
        return _WRONG
    return key.members(word) if key.members else word


def _dtype(key: Key, raw: Any) -> Any:
    name = str(raw).removeprefix("torch.").lower()  # torch.float16 itself may stand in a dict
    return DTYPES.get(name, _WRONG)


def _tier(key: Key, raw: Any) -> Any:
    return TIERS.get(raw.strip().lower(), _WRONG) if isinstance(raw, str) else _WRONG


PARSERS: Mapping[Kind, Callable[[Key, Any], Any]] = {
    Kind.BOOL: _bool,
    Kind.COUNT: _count,
    Kind.NUMBER: _number,
    Kind.NUMBERS: _numbers,
    Kind.PAIR: _pair,
    Kind.TEXT: _text,
    Kind.CHOICE: _choice,
    Kind.DTYPE: _dtype,
    Kind.TIER: _tier,
}


def written(value: Any) -> str:
    """A parsed value as it would stand in a configuration."""
    return shown(TIER_NAMES[value] if isinstance(value, Tier) else value)
