"""Stage 0: every rank holds everything. Written for reading: it is the explanation of the others.

Gradients that stay local are ordinary `p.grad`. In a backward that is followed by an average each
goes to its place in a flat bucket as it comes, while it is in the cache; after backward the buckets
are averaged over the ranks, and every rank makes the same update of the same fp32 masters.
"""

import math
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import Parameter

from engine.collectives import Pending
from engine.facts import BadTensor
from engine.offenders import name_bad_tensors
from engine.partition import Layout, Slot, Span, plan_buckets
from engine.reduction import IN_FLIGHT
from engine.segments import Segment
from engine.stages.base import Frozen, Setting, Stage
from engine.weights import common_values
from probe.schema.vocabulary import MemoryCategory, Phase


class Replica(Stage):
    """Plain data parallelism."""

    gradients_are_sliced = False

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self._collectives = setting.collectives
        self._rule = setting.reduction_rule(keep_local=True)
        self._synchronise = True
        self._bad: list[BadTensor] = []
        self._used: set[int] = set()
        self._sums: dict[Parameter, Tensor] = {}
        self._flats: dict[Layout, Tensor] = {}
        """Buckets that gradients are coming to."""
        self._placed: set[int] = set()
        """Indices of the members whose gradients are in them."""
        self._squares: list[float | None] = []
        """Of this rank's slices of the averages; one None makes all of them unknown."""
        self._masters: dict[Parameter, Tensor] = {}
        world, limit = self._collectives.world, setting.bucket_elements
        self._layouts = plan_buckets(setting.trained, world=world, limit_elements=limit)
        self._frozen = plan_buckets(
            setting.frozen, world=world, limit_elements=limit, prefix="frozen"
        )
        for layout in (*self._layouts, *self._frozen):
            self._adopt(layout)
        self.segments = [
            self._segment(layout, at) for layout in self._layouts for at in range(len(layout.slots))
        ]
        for layout in self._layouts:
            for slot in layout.slots:
                slot.member.parameter.register_post_accumulate_grad_hook(  # type: ignore[no-untyped-call]
                    self._hook(layout, slot)
                )

    def begin_backward(self, *, synchronise: bool) -> None:
        self._synchronise = synchronise

    def end_backward(self) -> None:
        if not self._synchronise:
            return
        # Reductions follow each other closely and the gathers come behind: the wire never waits for
        # the arithmetic of one bucket, nor the arithmetic for the wire.
        reducing: deque[_Average] = deque()
        gathering: deque[_Average] = deque()
        for layout in reversed(self._layouts):
            if len(reducing) == IN_FLIGHT:
                gathering.append(self._gather(reducing.popleft()))
            reducing.append(self._reduce(layout))
        while reducing:
            gathering.append(self._gather(reducing.popleft()))
        while gathering:
            self._hand_out(gathering.popleft())

    def clear(self) -> None:
        self._used.clear()
        self._bad.clear()
        self._sums.clear()
        self._flats.clear()
        self._placed.clear()
        self._squares.clear()
        for segment in self.segments:
            segment.gradient = None
            segment.spans[0].member.parameter.grad = None

    def publish(self) -> None:
        """Every rank made the same update."""

    @property
    def used(self) -> set[int]:
        return self._used

    @property
    def bad(self) -> list[BadTensor]:
        return self._bad

    @property
    def square_sum(self) -> float | None:
        known = [each for each in self._squares if each is not None]
        return math.fsum(known) if known and len(known) == len(self._squares) else None

    def whole_weights(self, *, masters: bool) -> Iterator[tuple[Parameter, Tensor]]:
        for member in self._setting.members:
            weights = member.parameter.detach()
            yield (
                member.parameter,
                self._masters.get(member.parameter, weights) if masters else weights,
            )

    def frozen(self) -> Iterator[Frozen]:
        for member in self._setting.frozen:
            yield Frozen(
                member=member,
                offset=0,
                start=0,
                elements=member.elements,
                weights=member.parameter.detach().view(-1),
                on_every_rank=True,
            )

    def held(self) -> Mapping[MemoryCategory, Sequence[Tensor]]:
        parameters = [member.parameter for member in self._setting.members]
        local = [p.grad for p in parameters if p.grad is not None]
        averaged = [s.gradient for s in self.segments if s.gradient is not None]
        return {
            MemoryCategory.PARAMS: [p.detach() for p in parameters],
            MemoryCategory.GRADS: [*local, *averaged, *self._sums.values(), *self._flats.values()],
            MemoryCategory.MASTER_PARAMS: list(self._masters.values()),
        }

    def _adopt(self, layout: Layout) -> None:
        values = common_values(layout, self._collectives, self._setting.device)
        for slot in layout.slots:
            whole = slot.view_of(values)
            parameter = slot.member.parameter
            parameter.data = whole.to(self._setting.dtype, copy=True)
            if slot.member.group is not None and self._setting.dtype != torch.float32:
                self._masters[parameter] = whole.clone()

    def _segment(self, layout: Layout, at: int) -> Segment:
        slot = layout.slots[at]
        member = slot.member
        assert member.group is not None, "only what is trained is in these layouts"
        weights = member.parameter.detach().view(-1)
        master = self._masters.get(member.parameter)
        return Segment(
            group=member.group,
            master=Parameter(weights if master is None else master.view(-1)),
            gradient=None,
            target=None if master is None else weights,
            spans=(Span(member=member, start=0, stop=member.elements, offset=0),),
            layout=layout,
            start=slot.start,
        )

    def _hook(self, layout: Layout, slot: Slot) -> Callable[[Parameter], None]:
        def gradient_came(parameter: Parameter) -> None:
            if self._synchronise:
                self._place(layout, slot)
            elif self._rule.local_dtype != self._setting.dtype:
                self._accumulate(parameter)

        return gradient_came

    def _accumulate(self, parameter: Parameter) -> None:
        gradient = parameter.grad
        assert gradient is not None, "the hook runs after accumulation"
        parameter.grad = None
        if parameter in self._sums:
            self._sums[parameter].add_(gradient)
        else:
            self._sums[parameter] = gradient.to(self._rule.local_dtype)

    def _place(self, layout: Layout, slot: Slot) -> None:
        """Put a gradient, with what earlier backwards left of it, into its bucket."""
        parameter, index = slot.member.parameter, slot.member.index
        if parameter in self._sums and parameter.grad is not None:
            self._accumulate(parameter)
        gradient = self._sums.pop(parameter, parameter.grad)
        parameter.grad = None
        place = slot.view_of(self._flat(layout))
        if gradient is None:
            place.zero_()
            return
        if gradient.is_sparse:
            gradient = gradient.to_dense()
        if index in self._placed:  # Reentrant checkpointing runs one backward a call.
            place.add_(gradient)
        else:
            place.copy_(gradient)
            self._placed.add(index)
        self._used.add(index)

    def _flat(self, layout: Layout) -> Tensor:
        if layout not in self._flats:
            self._flats[layout] = torch.empty(
                layout.padded_elements, dtype=self._rule.wire_dtype, device=self._setting.device
            )
        return self._flats[layout]

    def _reduce(self, layout: Layout) -> "_Average":
        """Send each slice of a bucket to its owner."""
        rule, rank = self._rule, self._collectives.rank
        for slot in layout.slots:
            if slot.member.index not in self._placed:
                self._place(layout, slot)
        flat = self._flat(layout)
        del self._flats[layout]
        self._placed -= {slot.member.index for slot in layout.slots}
        flat[layout.elements :].zero_()
        if rule.before != 1.0:
            flat.mul_(rule.before)
        pending = self._collectives.reduce_scatter_mean(
            flat, flat[layout.owned(rank)], factor=rule.after, add=False, block=layout.block
        )
        return _Average(layout=layout, flat=flat, pending=pending)

    def _gather(self, average: "_Average") -> "_Average":
        """The own slice is there: tell the others, learn theirs."""
        rank, layout = self._collectives.rank, average.layout
        with self._setting.clock.phase(Phase.REDUCE_WAIT):
            reduced = average.pending.wait()
        self._bad += name_bad_tensors(layout, rank, reduced.bad)
        self._squares.append(reduced.square_sum)
        average.pending = self._collectives.all_gather(
            average.flat, average.flat[layout.owned(rank)], block=layout.block
        )
        return average

    def _hand_out(self, average: "_Average") -> None:
        """All of it is there: each segment takes its piece."""
        with self._setting.clock.phase(Phase.REDUCE_WAIT):
            average.pending.wait()
        whole = average.flat.to(self._rule.owned_dtype)
        start_of = {slot.member.index: slot.start for slot in average.layout.slots}
        # The update may have cut segments, so each says itself which part of its parameter it is.
        for segment in self.segments:
            (span,) = segment.spans
            if span.member.index not in start_of:
                continue
            start = start_of[span.member.index] + span.offset
            piece = whole[start : start + segment.elements]
            if segment.gradient is None:
                segment.gradient = piece
            else:  # A second backward before the step adds to the average of the first.
                segment.gradient.add_(piece)
                self._squares.append(None)


@dataclass(kw_only=True, eq=False)
class _Average:
    """A bucket's gradients on their way to being averages."""

    layout: Layout
    flat: Tensor
    pending: Pending
