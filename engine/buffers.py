"""Flat storage: buffers that are lent and given back, and parameters that are views of one buffer.

Fresh memory costs a page fault every 4 KiB the first time it is touched; on a CPU that is as dear
as the copy itself. So transient buffers come from a pool and return to it.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from engine.partition import Layout


class BufferPool:
    """Lends flat tensors and takes them back; holds as many as were ever out at once."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._idle: list[Tensor] = []
        self.held_bytes = 0

    def take(self, elements: int, dtype: torch.dtype) -> Tensor:
        """A flat tensor whose content is whatever was there before."""
        wanted_bytes = elements * dtype.itemsize
        fitting = [each for each in self._idle if each.numel() >= wanted_bytes]
        if fitting:
            chosen = min(fitting, key=Tensor.numel)
            self._idle = [each for each in self._idle if each is not chosen]
        else:
            # The next larger of the idle ones makes room for it: the pool grows in size, not in
            # number.
            if self._idle:
                largest = max(self._idle, key=Tensor.numel)
                self._idle = [each for each in self._idle if each is not largest]
                self.held_bytes -= largest.numel()
            chosen = torch.empty(wanted_bytes, dtype=torch.uint8, device=self._device)
            self.held_bytes += wanted_bytes
        return chosen[:wanted_bytes].view(dtype)

    def give(self, tensor: Tensor) -> None:
        """Take a lent tensor back; the borrower must not touch it again."""
        whole = torch.empty(0, dtype=torch.uint8, device=self._device)
        storage = tensor.untyped_storage()
        whole.set_(storage, 0, (storage.nbytes(),))  # type: ignore[call-overload]
        self._idle.append(whole)

    def drop(self) -> None:
        """Free what is not lent."""
        self.held_bytes -= sum(each.numel() for each in self._idle)
        self._idle.clear()


def flatten_into(flat: Tensor, layout: Layout, tensors: Sequence[Tensor]) -> None:
    """Copy the tensors of a layout into their places; the padding becomes zero."""
    for slot, tensor in zip(layout.slots, tensors, strict=True):
        slot.view_of(flat).copy_(tensor)
    flat[layout.elements :].zero_()


def bind(flat: Tensor, layout: Layout, parameters: Sequence[torch.nn.Parameter]) -> None:
    """Make each parameter a view of its place in `flat`."""
    for slot, parameter in zip(layout.slots, parameters, strict=True):
        parameter.data = slot.view_of(flat)
