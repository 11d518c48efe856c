"""What the engine asks of a ZeRO stage, whichever it is."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn import Module, Parameter

from engine.collectives import Collectives
from engine.config.policies import Config
from engine.facts import BadTensor
from engine.kept import KeptActivations
from engine.partition import Member
from engine.precision import dtype_named, weight_dtype
from engine.reduction import ReductionRule
from engine.segments import Segment, master_slice
from engine.storage import Places, Shard
from engine.tracing import PhaseClock
from engine.weights import Weights, WholeWeights
from probe.schema.vocabulary import MemoryCategory, Tier

HOST = torch.device("cpu")
BUCKETS_AT_LEAST = 8
BUCKETS_OF_STAGE_2 = 24
"""It holds whole buckets only on their way: four or five, which must be few beside a slice."""
SMALLEST_BUCKET_ELEMENTS = 500_000


@dataclass(frozen=True, kw_only=True)
class Setting:
    """All that a stage is built from."""

    module: Module
    members: Sequence[Member]
    config: Config
    collectives: Collectives
    clock: PhaseClock
    places: Places
    device: torch.device
    kept: KeptActivations

    @property
    def trained(self) -> list[Member]:
        """The members that the optimizer updates."""
        return [member for member in self.members if member.group is not None]

    @property
    def frozen(self) -> list[Member]:
        """The members that stay as they are."""
        return [member for member in self.members if member.group is None]

    @property
    def dtype(self) -> torch.dtype:
        """What weights are stored in."""
        return weight_dtype(self.config.precision.precision)

    @property
    def bucket_elements(self) -> int:
        """The configured bucket, but never so large that one bucket swallows a small model.

        DeepSpeed's default of half a billion elements would put most models in one bucket: nothing
        could leave before backward ends, and stage 2 would hold what stage 1 holds.
        """
        least = BUCKETS_OF_STAGE_2 if self.config.zero.stage == 2 else BUCKETS_AT_LEAST
        fair = -(-sum(member.elements for member in self.trained) // least)
        return min(self.config.zero.reduce_bucket_elements, max(fair, SMALLEST_BUCKET_ELEMENTS))

    def reduction_rule(self, *, keep_local: bool) -> ReductionRule:
        """How this run averages its gradients."""
        precision, world = self.config.precision, self.collectives.world
        accumulator = torch.float32 if precision.accumulate_in_fp32 else self.dtype
        wire = precision.communication_dtype
        before = 1 / world if self.config.prescale_gradients else 1 / self.config.predivide_factor
        return ReductionRule(
            local_dtype=accumulator if keep_local else self.dtype,
            wire_dtype=self.dtype if wire is None else dtype_named(wire),
            owned_dtype=accumulator,
            before=before,
            after=1 / world / before,
            keep_local=keep_local,
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class Frozen:
    """Elements of a parameter that is not trained, where this rank holds them."""

    member: Member
    offset: int
    """Where in the flattened parameter they begin."""
    start: int
    """Where in `weights` they begin."""
    elements: int
    weights: Tensor | Shard
    """Flat: the very memory of the weights, or the slice that rests somewhere."""
    on_every_rank: bool
    """All ranks hold the whole of it."""

    def read(self) -> Tensor:
        """The values, not to be written to."""
        here = slice(self.start, self.start + self.elements)
        if isinstance(self.weights, Tensor):
            return self.weights[here]
        values = self.weights.open(HOST)[here].clone()
        self.weights.close()
        return values

    def write(self, values: Tensor) -> None:
        """Put these in their place."""
        here = slice(self.start, self.start + self.elements)
        if isinstance(self.weights, Tensor):
            self.weights[here].copy_(values)
            return
        self.weights.open(HOST)[here].copy_(values)
        self.weights.close(changed=True)


class Stage(ABC):
    """Holds weights and gradients the way its stage does, and hands out what this rank updates."""

    segments: list[Segment]
    """What this rank updates."""
    gradients_are_sliced: bool
    """Whether norms of the ranks' segments add up; otherwise every rank has the whole."""

    @abstractmethod
    def begin_backward(self, *, synchronise: bool) -> None:
        """A backward starts; without `synchronise` its gradients stay local."""

    @abstractmethod
    def end_backward(self) -> None:
        """The backward is over; with `synchronise` the segments' gradients are averages now."""

    @abstractmethod
    def clear(self) -> None:
        """Forget the gradients."""

    @abstractmethod
    def publish(self) -> None:
        """This rank's weights follow their masters already: the other ranks learn them."""

    @property
    @abstractmethod
    def used(self) -> set[int]:
        """Indices of the members that had a gradient on this rank since `clear`."""

    @property
    @abstractmethod
    def bad(self) -> list[BadTensor]:
        """Gradients that came with values that are no numbers; the list itself."""

    @property
    def square_sum(self) -> float | None:
        """Of this rank's slices of the averages, where it came free with the reduction."""
        return None

    @abstractmethod
    def whole_weights(self, *, masters: bool) -> Iterator[tuple[Parameter, Tensor]]:
        """Every parameter with its whole value, valid until the next. All ranks ask."""

    @abstractmethod
    def frozen(self) -> Iterator[Frozen]:
        """What this rank holds of the parameters that are not trained."""

    @abstractmethod
    def held(self) -> Mapping[MemoryCategory, Sequence[Tensor]]:
        """The tensors of the model states that this rank holds, for the ledger."""

    def away(self) -> Mapping[tuple[Tier, MemoryCategory], Sequence[Tensor]]:
        """Those of the held tensors that do not rest on the device."""
        return {}

    def masters_of(self, weights: Weights) -> Tensor | None:
        """This rank's slice of a bucket's masters; None where weights are their own."""
        if weights.master is None:
            return None
        return master_slice(weights.layout, self.segments)

    def date(self, micro_batch: int) -> None:
        """What is bad and has no date yet came in this micro-batch."""
        for at, bad in enumerate(self.bad):
            if bad.micro_batch is None:
                self.bad[at] = replace(bad, micro_batch=micro_batch)


def frozen_whole(weights: WholeWeights) -> Iterator[Frozen]:
    """A bucket of parameters that are not trained and that every rank has."""
    for slot in weights.layout.slots:
        yield Frozen(
            member=slot.member,
            offset=0,
            start=slot.start,
            elements=slot.stop - slot.start,
            weights=weights.flat,
            on_every_rank=True,
        )
