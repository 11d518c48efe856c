"""One flat tensor of this rank, wherever it rests, lent to the device that needs it.

While it is open it exists on that device; a change is put back when it is closed.
"""

import torch
from torch import Tensor

from engine.storage.place import Item, Place
from probe.schema.vocabulary import MemoryCategory

_VALUES = "values"


class Shard:
    """A shelf with a single tensor."""

    def __init__(self, place: Place, name: str, values: Tensor, category: MemoryCategory) -> None:
        self.place = place
        self.elements = values.numel()
        self.dtype = values.dtype
        item = Item(elements=self.elements, dtype=self.dtype, category=category)
        self._shelf = place.shelf(name, {_VALUES: item})
        self._shelf.give({_VALUES: values})
        self._home: Tensor | None = None
        self._lent: Tensor | None = None

    @property
    def always_at_hand(self) -> bool:
        """Whether `resting` may be used at any time."""
        return self.place.always_at_hand

    @property
    def resting(self) -> Tensor:
        """The values where they rest in memory; views of it stay valid."""
        assert self.always_at_hand, "only memory can be looked at"
        return self._shelf.take()[_VALUES]

    def expect(self) -> None:
        """It will be opened soon."""
        self._shelf.expect()

    def open(self, device: torch.device) -> Tensor:
        """The values on `device`, until closed."""
        if self._lent is None or self._lent.device != device:
            assert self._lent is None, "lent to one device at a time"
            self._home = self._shelf.take()[_VALUES]
            self._lent = self._home.to(device, non_blocking=True)
        return self._lent

    def close(self, *, changed: bool = False) -> None:
        """Whoever opened it is done."""
        home, lent = self._home, self._lent
        self._home = self._lent = None
        if home is None or lent is None:
            return
        if not changed:
            self._shelf.leave()
            return
        if lent.device != home.device:
            home.copy_(lent)
        self._shelf.give({_VALUES: home})

    def drop(self) -> None:
        """Nobody will open it again."""
        self._shelf.drop()
