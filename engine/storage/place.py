"""A place where shards rest, a shelf in it, and both for memory.

Whoever works on a shelf takes what lies on it and gives it back, wherever that is. In memory this
costs nothing: what rests there is at hand all the time.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from probe.schema.vocabulary import MemoryCategory, Tier


@dataclass(frozen=True, kw_only=True)
class Item:
    """One flat tensor that a shelf has room for."""

    elements: int
    dtype: torch.dtype
    category: MemoryCategory

    @property
    def size_bytes(self) -> int:
        """Its size."""
        return self.elements * self.dtype.itemsize


class Shelf(ABC):
    """Flat tensors that belong together, by name: taken together, and given back."""

    @abstractmethod
    def expect(self) -> bool:
        """It will be needed soon; whether there is room to fetch it early."""

    @abstractmethod
    def take(self) -> dict[str, Tensor]:
        """What was given last, at hand until it is given back or left."""

    @abstractmethod
    def give(self, tensors: Mapping[str, Tensor]) -> None:
        """Put these back; the giver must not touch them again."""

    @abstractmethod
    def leave(self) -> None:
        """What was taken is not needed any more, and is as it was."""

    @abstractmethod
    def drop(self) -> None:
        """Nobody will ask for it again."""


class Place(ABC):
    """Where shards rest."""

    tier: Tier
    always_at_hand: bool
    """Memory; elsewhere only what is taken exists."""

    @abstractmethod
    def shelf(self, name: str, items: Mapping[str, Item]) -> Shelf:
        """Room for some tensors."""

    @abstractmethod
    def held_bytes(self) -> Mapping[tuple[Tier, MemoryCategory], int]:
        """Bytes that this place holds beyond the tensors that others can see."""

    @abstractmethod
    def close(self) -> None:
        """Everything there is forgotten."""


class MemoryPlace(Place):
    """The device's memory, or the host's beside it."""

    always_at_hand = True

    def __init__(self, tier: Tier, device: torch.device, *, pinned: bool = False) -> None:
        self.tier = tier
        self.device = device
        self._pinned = pinned and tier is Tier.HOST and torch.cuda.is_available()

    def shelf(self, name: str, items: Mapping[str, Item]) -> Shelf:
        del name, items
        return _MemoryShelf(self.device, pinned=self._pinned)

    def held_bytes(self) -> Mapping[tuple[Tier, MemoryCategory], int]:
        return {}

    def close(self) -> None:
        """Memory goes with its tensors."""


class _MemoryShelf(Shelf):
    """What was given, as it was given, on this place's device."""

    def __init__(self, device: torch.device, *, pinned: bool) -> None:
        self._device = device
        self._pinned = pinned
        self._tensors: dict[str, Tensor] = {}

    def expect(self) -> bool:
        return True

    def take(self) -> dict[str, Tensor]:
        return self._tensors

    def give(self, tensors: Mapping[str, Tensor]) -> None:
        self._tensors = {name: self._at_home(tensor) for name, tensor in tensors.items()}

    def leave(self) -> None:
        """It stays at hand."""

    def drop(self) -> None:
        self._tensors = {}

    def _at_home(self, tensor: Tensor) -> Tensor:
        moved = tensor.to(self._device)
        return moved.pin_memory() if self._pinned and not moved.is_pinned() else moved


def sizes_of(items: Iterable[Item]) -> dict[MemoryCategory, int]:
    """Bytes by category."""
    sizes: dict[MemoryCategory, int] = {}
    for item in items:
        sizes[item.category] = sizes.get(item.category, 0) + item.size_bytes
    return sizes
