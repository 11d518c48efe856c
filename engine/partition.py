"""Who owns which elements.

Parameters are laid side by side in buckets. Every bucket is padded to a multiple of the world size
and rank r owns the r-th slice of every bucket; so a bucket is reduce-scattered and gathered without
a copy, and the largest imbalance between ranks is less than one world of padding a bucket.

    bucket, world 3   | weight 0 0 0 0 0 0 0 0 | bias 1 1 | pad |
    owners            | rank 0     | rank 1      | rank 2       |

Inside a bucket parameters are ordered by their optimizer group, so that what a rank owns of one
group is one contiguous span: the optimizer sees a handful of long flat tensors, however many
parameters.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import Parameter


@dataclass(frozen=True, kw_only=True, eq=False)
class Member:
    """A parameter of the model with all that sharding needs to know of it."""

    name: str
    parameter: Parameter
    index: int
    """Position in the model's order of parameters."""
    group: int | None
    """Optimizer group; None for what is not trained."""
    shape: torch.Size

    @property
    def elements(self) -> int:
        """How many elements the whole parameter has, gathered or not."""
        return self.shape.numel()


@dataclass(frozen=True, kw_only=True, eq=False)
class Slot:
    """The place of one parameter in a bucket."""

    member: Member
    start: int

    @property
    def stop(self) -> int:
        """One past the last element."""
        return self.start + self.member.elements

    def view_of(self, flat: Tensor) -> Tensor:
        """The parameter's elements of a full flat bucket, in its shape."""
        return flat[self.start : self.stop].view(self.member.shape)


@dataclass(frozen=True, kw_only=True, eq=False)
class Span:
    """The part of a slot that lies in one rank's slice; positions count from the slice's start."""

    member: Member
    start: int
    stop: int
    offset: int
    """Where in the flattened parameter the part begins."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Layout:
    """One bucket: parameters side by side, padded so that all ranks own equally much."""

    block: str
    slots: tuple[Slot, ...]
    world: int

    @property
    def elements(self) -> int:
        """Elements of parameters, without the padding."""
        return self.slots[-1].stop

    @property
    def padded_elements(self) -> int:
        """Elements in all, a multiple of the world size."""
        return -(-self.elements // self.world) * self.world

    @property
    def shard_elements(self) -> int:
        """Elements that each rank owns, padding included."""
        return self.padded_elements // self.world

    @property
    def members(self) -> list[Member]:
        """The parameters in the order of their places."""
        return [slot.member for slot in self.slots]

    @property
    def parameters(self) -> list[Parameter]:
        """The tensors of the members."""
        return [slot.member.parameter for slot in self.slots]

    def owned(self, rank: int) -> slice:
        """What `rank` owns of the full bucket."""
        return slice(rank * self.shard_elements, (rank + 1) * self.shard_elements)

    def spans(self, rank: int) -> list[Span]:
        """The members that `rank` owns a part of, and which part of its slice they are."""
        owned = self.owned(rank)
        return [
            Span(
                member=slot.member,
                start=max(slot.start, owned.start) - owned.start,
                stop=min(slot.stop, owned.stop) - owned.start,
                offset=max(owned.start - slot.start, 0),
            )
            for slot in self.slots
            if slot.start < owned.stop and slot.stop > owned.start
        ]


def lay_out(block: str, members: Iterable[Member], world: int) -> Layout:
    """Place the members side by side, ordered by optimizer group and then as they came."""
    ordered = sorted(members, key=lambda member: -1 if member.group is None else member.group)
    slots, start = [], 0
    for member in ordered:
        slots.append(Slot(member=member, start=start))
        start += member.elements
    return Layout(block=block, slots=tuple(slots), world=world)


def plan_buckets(
    members: Sequence[Member], *, world: int, limit_elements: int, prefix: str = "bucket"
) -> list[Layout]:
    """Cut the members, in model order, into buckets of `limit_elements` where that is possible."""
    cuts: list[list[Member]] = []
    filled = 0
    for member in members:
        if not cuts or filled + member.elements > limit_elements:
            cuts.append([])
            filled = 0
        cuts[-1].append(member)
        filled += member.elements
    return [lay_out(f"{prefix}.{number}", cut, world) for number, cut in enumerate(cuts)]
