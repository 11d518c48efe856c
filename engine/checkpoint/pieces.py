"""Which part of which whole tensor this rank saves, and where what it loads belongs.

A rank's segments are long and flat, made of parts of many parameters. In a checkpoint there are
only whole tensors under the names of their parameters ("master.head.weight", "exp_avg.head.weight")
of which each rank writes runs of elements; so nothing in it depends on stage, world size or where
the states rested. Every tensor is thought of as flat.

    saved by 2 ranks    head.weight | rank 0            | rank 1            |
    loaded by 3         head.weight | rank 0      | rank 1      | rank 2    |
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import Module

from engine.segments import Segment
from engine.stages import Frozen, Stage
from engine.update import Update

MASTER = "master"
RECORD_ELEMENTS = 1 << 20
"""A record is read whole to check its sum, so that none is longer than this."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Piece:
    """A run of elements of one tensor that this rank saves."""

    tensor: str
    start: int
    values: Tensor
    """Flat; valid until the next piece is asked for."""
    whole_elements: int


@dataclass(frozen=True, kw_only=True)
class Place:
    """A run of elements of one tensor that this rank needs, and where it goes."""

    tensor: str
    start: int
    elements: int
    at: int
    """Where in the destination."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Destination:
    """Something flat to be filled from several tensors and then handed over."""

    elements: int
    places: tuple[Place, ...]
    take: Callable[[Tensor], None]


class Holdings:
    """All that this rank saves of weights, optimizer states and buffers."""

    def __init__(
        self, *, module: Module, stage: Stage, update: Update | None, rank: int, world: int
    ) -> None:
        self._module = module
        self._stage = stage
        self._update = update
        self._rank = rank
        self._world = world
        self.scalars: dict[str, dict[str, Tensor]] = {}
        """By parameter and name: what is one number for all elements; known after `pieces`."""

    def pieces(self) -> Iterator[Piece]:
        """One after another; of what is read for them only one state is held at a time."""
        if self._update is not None:
            for segment in self._stage.segments:
                for name in self._update.state_names(segment):
                    yield from self._state_pieces(self._update, segment, name)
        for frozen in self._stage.frozen():
            yield from self._frozen_pieces(frozen)
        for name, buffer in saved_buffers(self._module).items():
            flat = buffer.detach().reshape(-1)
            yield from _cut(buffer_name(self._rank, name), flat, 0, flat.numel())

    def _state_pieces(self, update: Update, segment: Segment, name: str) -> Iterator[Piece]:
        values = update.read_state(segment, name)
        for span in segment.spans:
            start, stop = span.offset, span.offset + span.stop - span.start
            if not self._stage.gradients_are_sliced:
                mine = self._share(span.member.elements)
                start, stop = max(start, mine.start), min(stop, mine.stop)
            if start >= stop:
                continue
            if values.dim():
                shift = span.start - span.offset
                part = values[start + shift : stop + shift]
                yield from _cut(f"{name}.{span.member.name}", part, start, span.member.elements)
            else:
                self.scalars.setdefault(span.member.name, {})[name] = values

    def _frozen_pieces(self, frozen: Frozen) -> Iterator[Piece]:
        values, start = frozen.read(), frozen.offset
        if frozen.on_every_rank:
            mine = self._share(values.numel())
            values, start = values[mine], start + mine.start
        yield from _cut(f"{MASTER}.{frozen.member.name}", values, start, frozen.member.elements)

    def _share(self, elements: int) -> slice:
        """Of what all ranks hold alike each saves a part."""
        return slice(
            elements * self._rank // self._world, elements * (self._rank + 1) // self._world
        )


def saved_buffers(module: Module) -> dict[str, Tensor]:
    """The buffers that belong to the model's state."""
    kept = module.state_dict(keep_vars=True).keys()
    return {name: buffer for name, buffer in module.named_buffers() if name in kept}


def buffer_name(rank: int, name: str) -> str:
    """Buffers follow each rank's own batches, so each rank has its own."""
    return f"buffer.{rank}.{name}"


def places_of(segment: Segment, name: str) -> tuple[Place, ...]:
    """The parts of whole tensors that make up one state of a segment."""
    return tuple(
        Place(
            tensor=f"{name}.{span.member.name}",
            start=span.offset,
            elements=span.stop - span.start,
            at=span.start,
        )
        for span in segment.spans
    )


def _cut(tensor: str, values: Tensor, start: int, whole_elements: int) -> Iterator[Piece]:
    for part in torch.split(values, RECORD_ELEMENTS) if values.numel() else ():
        yield Piece(tensor=tensor, start=start, values=part, whole_elements=whole_elements)
        start += part.numel()
