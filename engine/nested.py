"""Tensors inside whatever a model takes in or puts out: tuples, lists and mappings of them."""

from collections.abc import Iterator, Mapping
from typing import Any

from torch import Tensor


def tensors_in(thing: Any) -> Iterator[Tensor]:
    """Every tensor, in the order of the containers."""
    if isinstance(thing, Tensor):
        yield thing
    elif isinstance(thing, Mapping):
        for value in thing.values():
            yield from tensors_in(value)
    elif isinstance(thing, list | tuple):
        for value in thing:
            yield from tensors_in(value)
