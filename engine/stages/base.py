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
from engine.segments import Segment
from engine.tracing import PhaseClock
from probe.schema.vocabulary import MemoryCategory

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
        """Masters were updated: the weights follow, on every rank."""

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
        """The sum of squares of the segments' gradients, where it came free with the reduction."""
        return None

    @abstractmethod
    def whole_weights(self, *, masters: bool) -> Iterator[tuple[Parameter, Tensor]]:
        """Every parameter with its whole value, valid until the next. All ranks ask."""

    @abstractmethod
    def held(self) -> Mapping[MemoryCategory, Sequence[Tensor]]:
        """The tensors of the model states that this rank holds, for the ledger."""

    def date(self, micro_batch: int) -> None:
        """What is bad and has no date yet came in this micro-batch."""
        for at, bad in enumerate(self.bad):
            if bad.micro_batch is None:
                self.bad[at] = replace(bad, micro_batch=micro_batch)
