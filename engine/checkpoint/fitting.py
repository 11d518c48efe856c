"""Whether a checkpoint fits the model at hand, said before anything of the model changes."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from engine.checkpoint.documents import Opened, Scalar, document_name
from engine.checkpoint.opening import DamagedCheckpointError, damaged
from engine.checkpoint.pieces import MASTER, buffer_name
from engine.partition import Member
from engine.precision import word_of
from probe.schema.layout import CHECKPOINT_DOCUMENT

_SHOWN = 3

Whole = Mapping[str, int]
"""The tensors of a checkpoint and how many elements each has."""


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What is to be taken from a checkpoint beside the weights."""

    optimizer: bool
    schedule: bool
    position: bool
    """Counters, loss scale, random numbers."""


@dataclass(frozen=True, kw_only=True)
class States:
    """What a checkpoint holds of the optimizer for one parameter."""

    flat: tuple[str, ...]
    """Names of the states with an element for each of the parameter's."""
    numbers: tuple[tuple[str, Scalar], ...]
    """The states that are one number for all of them."""


def require_model(checkpoint: Opened, members: Sequence[Member], whole: Whole) -> None:
    """The same parameters in the same shapes."""
    file = checkpoint.path / CHECKPOINT_DOCUMENT
    saved = checkpoint.main.parameters
    mine = {member.name: list(member.shape) for member in members}
    missing = [name for name in mine if name not in saved]
    strange = [name for name in saved if name not in mine]
    if missing or strange:
        parts = []
        if missing:
            parts.append(f"{_some(missing)} of the model {_is(missing)} not in it")
        if strange:
            parts.append(f"{_some(strange)} in it {_is(strange)} not in the model")
        raise damaged(file, f"it is of another model: {' and '.join(parts)}")
    for name, shape in mine.items():
        if saved[name].shape != shape:
            raise damaged(
                file,
                f"it is of another model: {name} has the shape {_shape(saved[name].shape)} in it"
                f" and {_shape(shape)} in the model",
            )
    for member in members:
        if member.elements and whole.get(f"{MASTER}.{member.name}") != member.elements:
            raise damaged(file, f"the weights of {member.name} are not wholly in it")


def require_buffers(checkpoint: Opened, buffers: Mapping[str, Tensor], whole: Whole) -> None:
    """The same buffers in the same shapes."""
    file, saved = checkpoint.path / CHECKPOINT_DOCUMENT, checkpoint.main.buffers
    for name, buffer in buffers.items():
        if saved.get(name) != list(buffer.shape):
            known = f"of the shape {_shape(saved[name])} in it" if name in saved else "not in it"
            raise damaged(
                file,
                f"it is of another model: the buffer {name} is {known}, and"
                f" {_shape(list(buffer.shape))} in the model",
            )
        for rank in range(checkpoint.main.world):
            if buffer.numel() and whole.get(buffer_name(rank, name)) != buffer.numel():
                raise damaged(file, f"the buffer {name} of rank {rank} is not wholly in it")


def require_own_states(checkpoint: Opened) -> None:
    """Random numbers and what was remembered, for every rank."""
    for document in checkpoint.ranks:
        own = document.own
        if not isinstance(own.get("random"), dict) or not isinstance(own.get("remembered"), dict):
            file = checkpoint.path / document_name(document.rank)
            raise damaged(file, "the rank's own state is not in it")


def require_optimizer(checkpoint: Opened, kind: str, groups: int) -> None:
    """States of the same optimizer, with as many parameter groups."""
    saved = checkpoint.main.optimizer
    if saved is None:
        return
    remedy = "load_optimizer_states=False takes the weights and begins anew with the optimizer"
    if saved.kind != kind:
        raise DamagedCheckpointError(
            f"{checkpoint.path} holds states of {saved.kind}, and the optimizer is {kind}; {remedy}"
        )
    if len(saved.groups) != groups:
        raise DamagedCheckpointError(
            f"{checkpoint.path} holds {len(saved.groups)} parameter groups, and the optimizer has"
            f" {groups}; {remedy}"
        )


def require_schedule(checkpoint: Opened, kind: str | None) -> None:
    """The position of the same schedule."""
    saved = checkpoint.main.schedule
    if saved is not None and kind is not None and saved.kind != kind:
        raise DamagedCheckpointError(
            f"{checkpoint.path} holds the position of {saved.kind}, and the schedule is {kind};"
            " load_lr_scheduler_states=False leaves the schedule as it is"
        )


def states_of(checkpoint: Opened, trained: Sequence[Member], whole: Whole) -> dict[int, States]:
    """For each trained parameter, by its index, what there is of the optimizer's states."""
    elements = {member.name: member.elements for member in trained}
    flat: dict[str, list[str]] = {}
    for tensor, count in whole.items():
        name, _, parameter = tensor.partition(".")
        if name in (MASTER, "buffer") or parameter not in elements:
            continue
        if count != elements[parameter]:
            raise damaged(
                checkpoint.path / CHECKPOINT_DOCUMENT, f"{tensor} has not the size of {parameter}"
            )
        flat.setdefault(parameter, []).append(name)
    numbers: dict[str, dict[str, Scalar]] = {}
    for document in checkpoint.ranks:
        for parameter, values in document.scalars.items():
            file = checkpoint.path / document_name(document.rank)
            for scalar in values.values():
                scalar_tensor(scalar, file=str(file))
            if numbers.setdefault(parameter, values) != values:
                raise damaged(file, f"the numbers of {parameter} differ from those on other ranks")
    return {
        member.index: States(
            flat=tuple(sorted(flat.get(member.name, ()))),
            numbers=tuple(sorted(numbers.get(member.name, {}).items())),
        )
        for member in trained
    }


def odd_ones(states: Mapping[int, States]) -> frozenset[int]:
    """Parameters whose states are not those that most have: they went without some update."""
    if not states:
        return frozenset()
    signatures = {index: repr(each) for index, each in states.items()}
    ((usual, _),) = Counter(signatures.values()).most_common(1)
    return frozenset(index for index, each in signatures.items() if each != usual)


def scalar_tensor(scalar: Scalar, *, file: str) -> Tensor:
    """A number in its type."""
    dtype = _SCALAR_TYPES.get(scalar.dtype)
    if dtype is None or not isinstance(scalar.value, bool | int | float):
        raise DamagedCheckpointError(f"{file} cannot be loaded: {scalar.value!r} is no state")
    return torch.tensor(scalar.value, dtype=dtype)


_SCALAR_TYPES = {
    word_of(dtype): dtype
    for dtype in (
        torch.float32,
        torch.float64,
        torch.int64,
        torch.bool,
        torch.float16,
        torch.bfloat16,
    )
}


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(names[:_SHOWN])
    return shown if len(names) <= _SHOWN else f"{shown} and {len(names) - _SHOWN} more"


def _is(names: Sequence[str]) -> str:
    return "is" if len(names) == 1 else "are"


def _shape(shape: Sequence[int]) -> str:
    return "×".join(map(str, shape)) or "()"
