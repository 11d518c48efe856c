"""Gradients out and weights back, between the device and the host where the update runs.

Without an accelerator both are the same memory: nothing is copied, and the traffic says so by
taking no time. With one, copies go through page-locked buffers on a stream of their own, two of
each kind, so that one is on its way while the other is worked on.
"""

from time import monotonic_ns

import torch
from torch import Tensor

from engine.storage.traffic import Traffic
from probe.schema.vocabulary import Direction, MemoryCategory, Tier

BUFFERS = 2


class Link:
    """The way between a device and the host's memory."""

    def __init__(
        self, device: torch.device, traffic: Traffic, *, pinned: bool, shared: bool | None = None
    ) -> None:
        self.shared = device.type == "cpu" if shared is None else shared
        self._device = device
        self._traffic = traffic
        self._pinned = pinned and device.type == "cuda"
        self._stream = _stream_on(device) if device.type == "cuda" else None
        self._staging: dict[tuple[Direction, int], Tensor] = {}
        self._leaving: dict[int, torch.cuda.Event] = {}
        self._turn = dict.fromkeys(Direction, 0)

    def out(self, gradient: Tensor) -> Tensor:
        """The gradient in host memory, valid until the call after the next."""
        sizes = {MemoryCategory.GRADS: gradient.numel() * gradient.element_size()}
        if self.shared:
            self._traffic.moved(Tier.HOST, Direction.STORE, sizes)
            return gradient
        staged, _ = self._stage(Direction.STORE, gradient.numel(), gradient.dtype)
        with self._traffic.waiting(Tier.HOST, Direction.STORE, sizes):
            began_ns = monotonic_ns()
            staged.copy_(gradient)
            ended_ns = monotonic_ns()
        self._traffic.moved(Tier.HOST, Direction.STORE, sizes, began_ns=began_ns, ended_ns=ended_ns)
        return staged

    def back(self, master: Tensor, weights: Tensor) -> None:
        """The weights on the device follow their masters on the host."""
        sizes = {MemoryCategory.PARAMS: weights.numel() * weights.element_size()}
        if self.shared:
            weights.copy_(master)
            self._traffic.moved(Tier.HOST, Direction.FETCH, sizes)
            return
        staged, turn = self._stage(Direction.FETCH, weights.numel(), weights.dtype)
        if turn in self._leaving:
            with self._traffic.waiting(Tier.HOST, Direction.FETCH, sizes):
                self._leaving.pop(turn).synchronize()
        staged.copy_(master)
        began_ns = monotonic_ns()
        if self._stream is None:
            weights.copy_(staged)
        else:
            with torch.cuda.stream(self._stream):
                weights.copy_(staged, non_blocking=True)
                self._leaving[turn] = torch.cuda.Event()  # type: ignore[no-untyped-call]
                self._leaving[turn].record(self._stream)
        self._traffic.moved(
            Tier.HOST, Direction.FETCH, sizes, began_ns=began_ns, ended_ns=monotonic_ns()
        )

    def settle(self) -> None:
        """All weights are there; whoever computes next sees them."""
        for event in self._leaving.values():
            event.wait(torch.cuda.current_stream(self._device))

    @property
    def staging_bytes(self) -> int:
        """Host memory that is held for copies."""
        return sum(each.numel() for each in self._staging.values())

    def _stage(self, direction: Direction, elements: int, dtype: torch.dtype) -> tuple[Tensor, int]:
        turn = self._turn[direction] = (self._turn[direction] + 1) % BUFFERS
        wanted_bytes = elements * dtype.itemsize
        held = self._staging.get((direction, turn))
        if held is None or held.numel() < wanted_bytes:
            held = torch.empty(wanted_bytes, dtype=torch.uint8, pin_memory=self._pinned)
            self._staging[direction, turn] = held
        return held[:wanted_bytes].view(dtype), turn


def _stream_on(device: torch.device) -> torch.cuda.Stream:
    stream: torch.cuda.Stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
    return stream
