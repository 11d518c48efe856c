"""Gradients leave while backward still runs: bucketed reduction to the owner of each slice.

As soon as autograd has accumulated a parameter's gradient, a hook moves it to its place in a flat
bucket. When a bucket is complete, and all buckets before it have left, it is reduce-scattered; at
most `IN_FLIGHT` are on their way at once. A parameter that took no part counts as zero and is
remembered as unused. Buckets leave in one order on all ranks: the reverse of the model's at first,
then the order in which they were complete on rank 0 in the first backward.
"""

import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.nn import Parameter

from engine.collectives import Collectives, Pending
from engine.facts import BadTensor
from engine.offenders import name_bad_tensors
from engine.partition import Layout, Slot
from engine.tracing import PhaseClock
from probe.schema.vocabulary import MemoryCategory, Phase

IN_FLIGHT = 2


@dataclass(frozen=True, kw_only=True)
class ReductionRule:
    """How gradients are averaged."""

    local_dtype: torch.dtype
    """What a rank adds its own micro-batches in."""
    wire_dtype: torch.dtype
    owned_dtype: torch.dtype
    """What the owner keeps the average in."""
    before: float
    """Each rank's gradient is multiplied by this before it is sent ..."""
    after: float
    """... and the sum by this; the product is 1 / world."""
    keep_local: bool
    """Stage 1: ranks keep whole gradients, and the average replaces their own slice."""


@dataclass(kw_only=True, eq=False)
class Bucket:
    """One bucket's gradients on their way from autograd to their owners."""

    layout: Layout
    owned: Tensor
    """This rank's slice of the average; in stage 1 a view of `local`."""
    local: Tensor | None = None
    """This rank's own gradients, whole; None while there are none."""
    filled: set[int] = field(default_factory=set)
    """Indices of the members whose gradients are in `local`."""
    arrived: set[int] = field(default_factory=set)
    """Members whose gradient came in this backward."""
    reduced: bool = False
    """`owned` holds an average already."""
    square_sum: float | None = None
    """Of `owned`, where the reduction told."""


class Reducer:
    """The gradients of a set of buckets."""

    def __init__(
        self,
        layouts: Sequence[Layout],
        *,
        rule: ReductionRule,
        collectives: Collectives,
        clock: PhaseClock,
        device: torch.device,
        completed: Callable[[Layout], None] = lambda layout: None,
    ) -> None:
        self._rule = rule
        self._collectives = collectives
        self._clock = clock
        self._completed = completed
        self._synchronise = True
        self._next = 0
        self._in_flight: deque[tuple[Bucket, Tensor, Pending]] = deque()
        self._completion: list[int] | None = []
        self.buckets = [self._bucket(layout, device) for layout in layouts]
        self._order = list(reversed(self.buckets))
        self.used: set[int] = set()
        """Indices of the members that had a gradient since the last `clear`."""
        self.bad: list[BadTensor] = []
        for bucket in self.buckets:
            for slot in bucket.layout.slots:
                parameter = slot.member.parameter
                parameter.register_post_accumulate_grad_hook(  # type: ignore[no-untyped-call]
                    self._hook(bucket, slot)
                )

    def begin(self, *, synchronise: bool) -> None:
        """A backward starts; without `synchronise` gradients stay where they are."""
        self._synchronise = synchronise
        self._next = 0
        for bucket in self.buckets:
            bucket.arrived.clear()
            if self._rule.keep_local and bucket.reduced:
                self._reopen(bucket)

    def finish(self) -> None:
        """The backward is over: send what is incomplete, wait for everything."""
        if not self._synchronise:
            return
        self._send_ready(all_of_them=True)
        # A parameter that is used twice under reentrant checkpointing arrives again after its
        # bucket left.
        for bucket in self._order:
            if bucket.filled:
                self._send(bucket)
        self._receive_all()
        if self._completion is not None:
            self._learn_order(self._completion)

    def clear(self) -> None:
        """Forget all gradients."""
        self.used.clear()
        self.bad.clear()
        for bucket in self.buckets:
            bucket.reduced = False
            bucket.square_sum = None
            bucket.filled.clear()
            if bucket.local is not None and not self._rule.keep_local:
                self._collectives.pool.give(bucket.local)
                bucket.local = None

    @property
    def square_sum(self) -> float | None:
        """Of all that this rank owns; None where a bucket's is not known."""
        sums = [bucket.square_sum for bucket in self.buckets]
        known = [each for each in sums if each is not None]
        return math.fsum(known) if len(known) == len(sums) and _all_finite(known) else None

    def held(self) -> dict[MemoryCategory, list[Tensor]]:
        """The gradients that are held now."""
        local = [bucket.local for bucket in self.buckets if bucket.local is not None]
        if self._rule.keep_local:
            return {MemoryCategory.GRADS: local}
        return {
            MemoryCategory.GRADS: [bucket.owned for bucket in self.buckets],
            MemoryCategory.GRAD_BUCKETS: local,
        }

    def _bucket(self, layout: Layout, device: torch.device) -> Bucket:
        if self._rule.keep_local:
            local = torch.zeros(layout.padded_elements, dtype=self._rule.local_dtype, device=device)
            return Bucket(
                layout=layout, local=local, owned=local[layout.owned(self._collectives.rank)]
            )
        owned = torch.zeros(layout.shard_elements, dtype=self._rule.owned_dtype, device=device)
        return Bucket(layout=layout, owned=owned)

    def _hook(self, bucket: Bucket, slot: Slot) -> Callable[[Parameter], None]:
        index = slot.member.index
        members = len(bucket.layout.slots)

        def gradient_came(parameter: Parameter) -> None:
            gradient = parameter.grad
            assert gradient is not None, "the hook runs after accumulation"
            parameter.grad = None
            if bucket.local is None:
                bucket.local = self._collectives.pool.take(
                    bucket.layout.padded_elements, self._rule.local_dtype
                )
            if gradient.is_sparse:
                gradient = gradient.to_dense()
            if self._rule.keep_local and bucket.reduced:
                self._receive_all()
                self._reopen(bucket)
            place = slot.view_of(bucket.local)
            if index in bucket.filled:
                place.add_(gradient)
            else:
                place.copy_(gradient)
                bucket.filled.add(index)
            self.used.add(index)
            if index in bucket.arrived:
                # Reentrant checkpointing runs one backward a call: the block is gone through again.
                bucket.arrived.clear()
            bucket.arrived.add(index)
            if len(bucket.arrived) == members:
                if self._completion is not None:
                    self._completion.append(self.buckets.index(bucket))
                self._completed(bucket.layout)
                if self._synchronise:
                    self._send_ready(all_of_them=False)

        return gradient_came

    def _send_ready(self, *, all_of_them: bool) -> None:
        while self._next < len(self._order):
            bucket = self._order[self._next]
            if not all_of_them and len(bucket.arrived) < len(bucket.layout.slots):
                return
            self._next += 1
            self._send(bucket)

    def _send(self, bucket: Bucket) -> None:
        while len(self._in_flight) >= IN_FLIGHT:
            with self._clock.phase(Phase.REDUCE_WAIT):
                self._receive()
        layout, rule = bucket.layout, self._rule
        if bucket.local is None:
            bucket.local = self._collectives.pool.take(layout.padded_elements, rule.local_dtype)
        for slot in layout.slots:
            if slot.member.index not in bucket.filled:
                bucket.local[slot.start : slot.stop].zero_()
        bucket.local[layout.elements :].zero_()
        source = bucket.local
        if rule.wire_dtype != source.dtype:
            source = self._collectives.pool.take(layout.padded_elements, rule.wire_dtype)
            source.copy_(bucket.local)
        if rule.before != 1.0:
            source.mul_(rule.before)
        pending = self._collectives.reduce_scatter_mean(
            source,
            bucket.owned,
            factor=rule.after,
            add=bucket.reduced and not rule.keep_local,
            block=layout.block,
        )
        self._in_flight.append((bucket, source, pending))
        if not rule.keep_local:
            if source is not bucket.local:
                self._collectives.pool.give(bucket.local)
            bucket.local = None
        bucket.filled.clear()
        bucket.reduced = True

    def _receive_all(self) -> None:
        with self._clock.phase(Phase.REDUCE_WAIT):
            while self._in_flight:
                self._receive()

    def _receive(self) -> None:
        bucket, source, pending = self._in_flight.popleft()
        reduced = pending.wait()
        bucket.square_sum = reduced.square_sum
        self.bad += name_bad_tensors(bucket.layout, self._collectives.rank, reduced.bad)
        if source is not bucket.local:
            self._collectives.pool.give(source)

    def _reopen(self, bucket: Bucket) -> None:
        # Stage 1 after a reduction, before another gradient of the same step: the slice of this
        # rank is the average already. As world × average and zeros elsewhere it can be added to and
        # sent again.
        assert bucket.local is not None, "stage 1 keeps whole gradients"
        mean = bucket.owned.clone().mul_(self._collectives.world)
        bucket.local.zero_()
        bucket.owned.copy_(mean)
        bucket.filled = {slot.member.index for slot in bucket.layout.slots}
        bucket.reduced = False

    def _learn_order(self, completion: list[int]) -> None:
        self._completion = None
        missing = [at for at in reversed(range(len(self.buckets))) if at not in completion]
        order = list(dict.fromkeys(completion)) + missing
        agreed = self._collectives.share(order, block="order of buckets")[0]
        self._order = [self.buckets[at] for at in agreed]


def _all_finite(values: Sequence[float]) -> bool:
    return all(map(math.isfinite, values))
