"""Weights, optimizer states and buffers out of a checkpoint: first looked at, then taken over."""

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import torch
from torch.nn import Module

from engine.checkpoint import fitting
from engine.checkpoint.documents import Opened
from engine.checkpoint.filling import Filling
from engine.checkpoint.pieces import (
    MASTER,
    Destination,
    Place,
    buffer_name,
    places_of,
    saved_buffers,
)
from engine.checkpoint.reading import CheckpointReader
from engine.collectives import Collectives
from engine.partition import Member
from engine.stages import Stage
from engine.update import Update


class Model(Protocol):
    """What is to be restored."""

    @property
    def module(self) -> Module:
        """Its buffers are."""

    @property
    def members(self) -> list[Member]:
        """Its parameters."""

    @property
    def stage(self) -> Stage:
        """Who holds what of them."""

    @property
    def update(self) -> Update | None:
        """How to reach masters and states."""

    @property
    def schedule(self) -> Any | None:
        """Compared by its kind."""

    @property
    def collectives(self) -> Collectives:
        """Which rank this is."""


def validate(checkpoint: Opened, model: Model, wanted: fitting.Wanted) -> None:
    """Raise unless all of it can be taken over; nothing changes. A share of all sums is checked."""
    reader = CheckpointReader(checkpoint)
    whole = reader.elements()
    fitting.require_model(checkpoint, model.members, whole)
    fitting.require_buffers(checkpoint, saved_buffers(model.module), whole)
    fitting.require_own_states(checkpoint)
    if wanted.optimizer and model.update is not None:
        optimizer = model.update.optimizer
        kind, groups = type(optimizer).__name__, len(optimizer.param_groups)
        fitting.require_optimizer(checkpoint, kind, groups)
        fitting.states_of(checkpoint, _trained(model), whole)
    if wanted.schedule and model.schedule is not None:
        fitting.require_schedule(checkpoint, type(model.schedule).__name__)
    reader.verify(share=model.collectives.rank, shares=model.collectives.world)


def restore_tensors(checkpoint: Opened, model: Model, wanted: fitting.Wanted) -> None:
    """Take over what `validate` has found to be good."""
    reader = CheckpointReader(checkpoint)
    model.stage.clear()
    states: dict[int, fitting.States] = {}
    if wanted.optimizer and model.update is not None:
        states = fitting.states_of(checkpoint, _trained(model), reader.elements())
        model.update.forget_states()
        model.update.set_apart(fitting.odd_ones(states))
    destinations = [
        *_segments(model, states),
        *_frozen(model),
        *_buffers(model, model.collectives.rank % checkpoint.main.world),
    ]
    with torch.no_grad():
        Filling(destinations).fill(reader)
    if model.update is not None:
        for segment in model.stage.segments:
            of_first = states.get(segment.spans[0].member.index)
            for name, scalar in () if of_first is None else of_first.numbers:
                number = fitting.scalar_tensor(scalar, file=str(checkpoint.path))
                model.update.write_state(segment, name, number)
        model.stage.publish()


def _trained(model: Model) -> Sequence[Member]:
    return [member for member in model.members if member.group is not None]


def _segments(model: Model, states: dict[int, fitting.States]) -> Iterator[Destination]:
    update = model.update
    if update is None:
        return
    for segment in model.stage.segments:
        of_first = states.get(segment.spans[0].member.index)
        for name in (MASTER, *(() if of_first is None else of_first.flat)):
            yield Destination(
                elements=segment.elements,
                places=places_of(segment, name),
                take=lambda values, s=segment, n=name: update.write_state(s, n, values),  # type: ignore[misc]
            )


def _frozen(model: Model) -> Iterator[Destination]:
    for frozen in model.stage.frozen():
        name = f"{MASTER}.{frozen.member.name}"
        yield Destination(
            elements=frozen.elements,
            places=(Place(tensor=name, start=frozen.offset, elements=frozen.elements, at=0),),
            take=frozen.write,
        )


def _buffers(model: Model, source: int) -> Iterator[Destination]:
    for name, buffer in saved_buffers(model.module).items():
        if buffer.numel():
            flat = buffer.detach()
            yield Destination(
                elements=buffer.numel(),
                places=(
                    Place(tensor=buffer_name(source, name), start=0, elements=buffer.numel(), at=0),
                ),
                take=lambda values, flat=flat: flat.copy_(values.view(flat.shape)),  # type: ignore[misc]
            )
