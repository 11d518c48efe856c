"""Values as JSON that come back as they were: no pickle, and nothing that would need one.

JSON has no tuples, no bytes, no keys but texts and no infinity; each of these is written as a
mapping with one key that begins with "$". Everything else that is not JSON is refused by its path.
"""

import base64
import math
from collections.abc import Mapping
from typing import Any

from probe.errors import UsageError

_LARGEST = 2**63


class NotPlainError(UsageError):
    """A value that a checkpoint cannot hold, named by its path."""


def to_plain(value: Any, path: str) -> Any:
    """The value as what a JSON file can hold; `path` is its name in an error."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        if not -_LARGEST <= value < _LARGEST:
            raise NotPlainError(
                f"{path} is a number beyond 64 bits, which a checkpoint cannot hold"
            )
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else {"$float": repr(float(value))}
    if isinstance(value, bytes):
        return {"$bytes": base64.b64encode(value).decode()}
    if isinstance(value, tuple):
        return {"$tuple": [to_plain(item, f"{path}[{at}]") for at, item in enumerate(value)]}
    if isinstance(value, list):
        return [to_plain(item, f"{path}[{at}]") for at, item in enumerate(value)]
    if isinstance(value, Mapping):
        if all(isinstance(key, str) and not key.startswith("$") for key in value):
            return {key: to_plain(item, f"{path}.{key}") for key, item in value.items()}
        pairs = [
            [to_plain(key, f"a key of {path}"), to_plain(item, f"{path}[{key!r}]")]
            for key, item in value.items()
        ]
        return {"$items": pairs}
    raise NotPlainError(
        f"{path} is of type {type(value).__name__}, which a checkpoint cannot hold; give it"
        " numbers, texts, lists, tuples, mappings and bytes only (tensor.tolist(),"
        " vars(arguments), ...)"
    )


def from_plain(plain: Any) -> Any:
    """What `to_plain` was given. A ValueError where it cannot have been its work."""
    if isinstance(plain, list):
        return [from_plain(item) for item in plain]
    if not isinstance(plain, dict):
        return plain
    if len(plain) == 1:
        ((tag, content),) = plain.items()
        match tag, content:
            case "$float", str():
                return float(content)
            case "$bytes", str():
                return base64.b64decode(content, validate=True)
            case "$tuple", list():
                return tuple(from_plain(item) for item in content)
            case "$items", list():
                return {from_plain(key): from_plain(item) for key, item in content}
    if any(key.startswith("$") for key in plain):
        raise ValueError(f"{sorted(plain)[0]!r} is no tag of a plain value")
    return {key: from_plain(item) for key, item in plain.items()}
