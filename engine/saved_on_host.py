"""Activations that wait for backward in host memory.

On CUDA a copy runs on a stream of its own into pinned memory, beside the computation; in backward
the one that will be needed next is fetched while the one before it is used. Without an accelerator
host and device are the same memory: the path is the same, and it saves nothing.
"""

from collections.abc import Iterable
from typing import Any
from weakref import ReferenceType, ref

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks

from engine.kept import KeptActivations


class Resting:
    """One tensor on the host, and on its way back once it is asked for."""

    def __init__(self, host: Tensor, device: torch.device, before: "Resting | None") -> None:
        self.host = host
        self.device = device
        self.fetched: Tensor | None = None
        self.arrived: torch.cuda.Event | None = None
        self._before = None if before is None else ref(before)

    @property
    def before(self) -> "Resting | None":
        """The one that was put away before it, hence is needed after it; None if it is gone."""
        return None if self._before is None else self._before()


class SavedOnHost:
    """Takes what autograd saves to the host and brings it back."""

    def __init__(self, device: torch.device, kept: KeptActivations) -> None:
        self._kept = kept
        self._stream: torch.cuda.Stream | None = None
        if device.type == "cuda":
            self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self._last: ReferenceType[Resting] | None = None

    def taking(self, wanted: Iterable[Any]) -> saved_tensors_hooks:
        """While this is entered, what autograd saves of the `wanted` goes to the host."""
        addresses = {
            thing.data_ptr()
            for thing in wanted
            if isinstance(thing, Tensor) and thing.requires_grad and not thing.is_leaf
        }

        def pack(tensor: Tensor) -> Any:
            if tensor.data_ptr() in addresses:
                return self._put_away(tensor)
            self._kept.note(tensor)
            return tensor

        return saved_tensors_hooks(pack, self._bring_back)

    def _put_away(self, tensor: Tensor) -> Resting:
        host = torch.empty_like(tensor, device="cpu", pin_memory=self._stream is not None)
        before = None if self._last is None else self._last()
        resting = Resting(host, tensor.device, before)
        if self._stream is None:
            host.copy_(tensor)
        else:
            self._stream.wait_stream(torch.cuda.current_stream(tensor.device))
            with torch.cuda.stream(self._stream):
                host.copy_(tensor, non_blocking=True)
            tensor.record_stream(self._stream)
        self._last = ref(resting)
        self._kept.note_on_host(host)
        return resting

    def _bring_back(self, packed: Any) -> Tensor:
        if not isinstance(packed, Resting):
            same: Tensor = packed
            return same
        if self._stream is None:
            return packed.host
        self._fetch(packed, self._stream)
        tensor = packed.fetched
        assert tensor is not None and packed.arrived is not None, "it was just asked for"
        packed.fetched = None
        computing = torch.cuda.current_stream(packed.device)
        computing.wait_event(packed.arrived)
        tensor.record_stream(computing)
        if packed.before is not None:
            self._fetch(packed.before, self._stream)
        return tensor

    def _fetch(self, resting: Resting, stream: torch.cuda.Stream) -> None:
        # The copies run on one stream, so what is fetched was put away before.
        if resting.fetched is None:
            with torch.cuda.stream(stream):
                resting.fetched = torch.empty_like(resting.host, device=resting.device)
                resting.fetched.copy_(resting.host, non_blocking=True)
                resting.arrived = stream.record_event()
