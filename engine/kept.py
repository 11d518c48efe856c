"""What forward keeps for backward, in bytes, in the steps where someone wants to know.

Autograd tells of every tensor that it saves. Weights among them are model states and not counted,
and what several operations save is counted once. Whoever watches saved tensors for a purpose of
its own (stage 3, activation checkpointing) passes on what it sees: autograd has only one listener
at a time.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks
from torch.nn import Module


class KeptActivations:
    """Bytes between forward and backward: the most since `arm`."""

    def __init__(self, module: Module) -> None:
        self.armed = False
        """Whether forward is being looked at; costs a microsecond a saved tensor."""
        self.device_bytes = 0
        self.host_bytes = 0
        self._module = module
        self._seen: set[int] = set()
        self._device_now = self._host_now = 0

    def arm(self) -> None:
        """Look at the forwards of the step that begins."""
        self.armed = True
        self.device_bytes = self.host_bytes = 0
        self.forget()

    def disarm(self) -> None:
        """What was found stays."""
        self.armed = False
        self._seen.clear()

    @contextmanager
    def watching_forward(self) -> Iterator[None]:
        """Count what is saved inside."""
        if not self.armed or not torch.is_grad_enabled():
            yield
            return
        # Not before: in stage 3 weights move between forwards.
        self._seen.update(
            parameter.untyped_storage().data_ptr() for parameter in self._module.parameters()
        )
        with saved_tensors_hooks(self._pack, _same):
            yield

    def note(self, tensor: Tensor) -> None:
        """Autograd keeps this tensor."""
        if not self.armed:
            return
        storage = tensor.untyped_storage()
        address = storage.data_ptr()
        if address not in self._seen:
            self._seen.add(address)
            self._device_now += storage.nbytes()
            self.device_bytes = max(self.device_bytes, self._device_now)

    def note_on_host(self, tensor: Tensor) -> None:
        """This copy rests on the host until backward."""
        if self.armed:
            self._host_now += tensor.untyped_storage().nbytes()
            self.host_bytes = max(self.host_bytes, self._host_now)

    def forget(self) -> None:
        """A backward has used them all."""
        self._seen.clear()
        self._device_now = self._host_now = 0

    def _pack(self, tensor: Tensor) -> Tensor:
        self.note(tensor)
        return tensor


def _same(tensor: Tensor) -> Tensor:
    return tensor
