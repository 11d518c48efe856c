"""Adam on the host, tile by tile: what a tile needs is in the cache once, and all is done to it.

An optimizer's `step` goes over a part of the gradients to widen them, over all of it to update, and
over all of it again for the 16-bit weights, and asks many questions on each call. Here the same
kernel is called on tiles that fit the cache, with the cast before and the weights behind it. States
stay where the optimizer keeps them, bit for bit as it would leave them; it makes them itself, in
its first step, and whatever is not plain Adam goes through its own `step` always.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.optim import Adam, AdamW, Optimizer
from torch.optim.optimizer import _global_optimizer_post_hooks, _global_optimizer_pre_hooks

from engine.buffers import BufferPool
from engine.segments import Segment

TILE_ELEMENTS = 65_536
"""For each thread: master, gradient, both moments and the weights of a tile are 1.1 MB."""
_FIRST, _SECOND, _STEP = "exp_avg", "exp_avg_sq", "step"


@dataclass(frozen=True, slots=True)
class _Piece:
    """A stretch of a segment that lies in one tile."""

    master: Tensor
    gradient: Tensor
    first: Tensor
    second: Tensor
    step: Tensor
    target: Tensor | None


class TiledAdam:
    """Steps some segments of a torch Adam or AdamW, where that is all there is to it."""

    def __init__(self, optimizer: Optimizer, pool: BufferPool) -> None:
        self._optimizer = optimizer
        self._pool = pool

    def can_step(self, segments: Sequence[Segment]) -> bool:
        """Whether this does all that the optimizer's own `step` would do for these segments."""
        return (
            type(self._optimizer) in (Adam, AdamW)
            and not _is_watched(self._optimizer)
            and all(map(_is_plain, self._optimizer.param_groups))
            and all(self._has_states(segment) for segment in segments)
        )

    @torch.no_grad()
    def step(self, segments: Sequence[Segment], factor: float) -> None:
        """Update masters with gradient × factor, and let the 16-bit weights follow."""
        tile_elements = TILE_ELEMENTS * torch.get_num_threads()
        widened = self._pool.take(tile_elements, torch.float32)
        for number, group in enumerate(self._optimizer.param_groups):
            own = [segment for segment in segments if segment.group == number]
            steps = [self._optimizer.state[segment.master][_STEP] for segment in own]
            if not own:
                continue
            torch._foreach_add_(steps, 1)
            update = _kernel(self._optimizer, group)
            # All cut before the first is touched: between tiles every line of ours is cold.
            for tile in list(_tiles(self._pieces(own, tile_elements), tile_elements)):
                _step_tile(tile, update, widened, factor)
        self._pool.give(widened)
        # What torch's schedules look at to warn of one that is stepped before its optimizer.
        self._optimizer._opt_called = True  # type: ignore[attr-defined]

    def _has_states(self, segment: Segment) -> bool:
        state = self._optimizer.state.get(segment.master, {})
        return _SECOND in state and segment.master.device.type == "cpu"

    def _pieces(self, segments: Sequence[Segment], longest: int) -> Iterator[_Piece]:
        for segment in segments:
            state = self._optimizer.state[segment.master]
            assert segment.gradient is not None, "left out otherwise"
            whole = [segment.master.data, segment.gradient, state[_FIRST], state[_SECOND]]
            if segment.target is not None:
                whole.append(segment.target)
            # As `split`, without its way through Python.
            cut = [tensor.unsafe_split(longest) for tensor in whole]
            for master, gradient, first, second, *target in zip(*cut, strict=True):
                yield _Piece(
                    master, gradient, first, second, state[_STEP], target[0] if target else None
                )


def _tiles(pieces: Iterator[_Piece], most_elements: int) -> Iterator[list[_Piece]]:
    """As many pieces at once as fit: a call costs what some thousand elements do."""
    tile: list[_Piece] = []
    elements = 0
    for piece in pieces:
        if tile and elements + piece.master.numel() > most_elements:
            yield tile
            tile, elements = [], 0
        tile.append(piece)
        elements += piece.master.numel()
    if tile:
        yield tile


def _step_tile(
    tile: Sequence[_Piece], update: Callable[..., None], widened: Tensor, factor: float
) -> None:
    gradients = []
    start = 0
    for piece in tile:
        gradient = piece.gradient
        if gradient.dtype != torch.float32:
            stop = start + gradient.numel()
            gradient = widened[start:stop].copy_(gradient)
            start = stop
        if factor != 1.0:
            gradient.mul_(factor)
        gradients.append(gradient)
    update(
        [piece.master for piece in tile],
        gradients,
        [piece.first for piece in tile],
        [piece.second for piece in tile],
        [],
        [piece.step for piece in tile],
    )
    for piece in tile:
        if piece.target is not None:
            piece.target.copy_(piece.master)


def _kernel(optimizer: Optimizer, group: dict[str, Any]) -> Callable[..., None]:
    """What torch's fused step of this group comes to."""
    decoupled = group.get("decoupled_weight_decay", type(optimizer) is AdamW)
    kernel = torch._fused_adamw_ if decoupled else torch._fused_adam_
    early, late = group["betas"]
    settings = {
        "lr": group["lr"],
        "beta1": early,
        "beta2": late,
        "weight_decay": group["weight_decay"],
        "eps": group["eps"],
        "maximize": group["maximize"],
        "amsgrad": False,
    }

    def update(*tensors: list[Tensor]) -> None:
        kernel(*tensors, **settings)

    return update


def _is_plain(group: dict[str, Any]) -> bool:
    return (
        bool(group.get("fused"))
        and not group["amsgrad"]
        and not isinstance(group["lr"], Tensor)
        and not any(isinstance(beta, Tensor) for beta in group["betas"])
    )


def _is_watched(optimizer: Optimizer) -> bool:
    """Whether somebody expects that its `step` is called each time."""
    own = vars(optimizer).get("step")
    return bool(
        (own is not None and not hasattr(own, "_wrapped_by_lr_sched"))
        or optimizer._optimizer_step_pre_hooks
        or optimizer._optimizer_step_post_hooks
        or _global_optimizer_pre_hooks
        or _global_optimizer_post_hooks
    )
