"""Nested blocks and dotted paths, each made of the other."""

from collections.abc import Mapping
from typing import Any


def put(blocks: dict[str, Any], path: str, value: Any) -> None:
    """Set a value, making the blocks on the way."""
    *parents, leaf = path.split(".")
    for parent in parents:
        blocks = blocks.setdefault(parent, {})
    blocks[leaf] = value


def flat(blocks: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    """All values with their paths."""
    pairs: list[tuple[str, Any]] = []
    for name, value in blocks.items():
        if isinstance(value, Mapping):
            pairs += flat(value, f"{prefix}{name}.")
        else:
            pairs.append((f"{prefix}{name}", value))
    return pairs
