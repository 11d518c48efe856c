"""The weights of one bucket: whole on every rank, or a slice that is gathered for use.

Both keep this rank's slice of fp32 master weights where the model computes in 16 bits; in fp32 the
slice of the weights is its own master.
"""

import math
from collections import deque
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor
from torch.nn import Parameter

from engine.buffers import bind, flatten_into
from engine.collectives import Collectives, Pending
from engine.partition import Layout
from engine.sharded_init import whole_value
from engine.tracing import PhaseClock
from probe.schema.vocabulary import Phase

GATHERS_IN_FLIGHT = 4


class Weights:
    """This rank's slice of a bucket, and its master where it is trained."""

    def __init__(
        self,
        layout: Layout,
        *,
        owned: Tensor,
        values: Tensor,
        collectives: Collectives,
        trained: bool,
    ) -> None:
        self.layout = layout
        self.trained = trained
        self.owned = owned
        self.separate_master: Tensor | None = None
        if trained and owned.dtype != torch.float32:
            self.separate_master = values[layout.owned(collectives.rank)].clone()
        self._collectives = collectives

    @property
    def master_slice(self) -> Tensor:
        """What the optimizer updates."""
        return self.owned if self.separate_master is None else self.separate_master

    @property
    def target(self) -> Tensor | None:
        """What follows the master; None where the weights are the master."""
        return None if self.separate_master is None else self.owned

    def pieces(self, whole: Tensor, *, masters: bool) -> Iterator[tuple[Parameter, Tensor]]:
        """Each parameter with its values: of `whole`, or of the masters. Every rank must ask."""
        if masters and self.separate_master is not None:
            whole = torch.empty(
                self.layout.padded_elements, dtype=torch.float32, device=self.owned.device
            )
            block = f"{self.layout.block} masters"
            self._collectives.all_gather(whole, self.separate_master, block=block).wait()
        for slot in self.layout.slots:
            yield slot.member.parameter, slot.view_of(whole)


class WholeWeights(Weights):
    """Every rank holds the whole bucket; after an update the slices are gathered in place."""

    def __init__(
        self,
        layout: Layout,
        *,
        dtype: torch.dtype,
        collectives: Collectives,
        device: torch.device,
        trained: bool,
    ) -> None:
        values = common_values(layout, collectives, device)
        self.flat = values.to(dtype)
        super().__init__(
            layout,
            owned=self.flat[layout.owned(collectives.rank)],
            values=values,
            collectives=collectives,
            trained=trained,
        )
        bind(self.flat, layout, layout.parameters)

    def publish(self) -> Pending:
        """Tell the other ranks this rank's slice and learn theirs."""
        return self._collectives.all_gather(self.flat, self.owned, block=self.layout.block)


class SlicedWeights(Weights):
    """Each rank holds its slice; the whole exists between `gather` and `release`.

    The whole always lives in the same storage, which shrinks to nothing on release: what autograd
    saved (a transposed weight, say) is a view of it and becomes valid when it is gathered again. In
    between a parameter keeps its shape over a single NaN: its size can be asked for, what reads it
    sees that nothing is there, and what writes to it is refused.
    """

    def __init__(
        self,
        layout: Layout,
        *,
        dtype: torch.dtype,
        collectives: Collectives,
        device: torch.device,
        trained: bool,
    ) -> None:
        values = common_values(layout, collectives, device)
        super().__init__(
            layout,
            owned=values[layout.owned(collectives.rank)].to(dtype, copy=True),
            values=values,
            collectives=collectives,
            trained=trained,
        )
        self.full = torch.empty(layout.padded_elements, dtype=dtype, device=device)
        self._full_bytes = self.full.untyped_storage().nbytes()
        self._places = [slot.view_of(self.full) for slot in layout.slots]
        nothing = torch.full((), math.nan, dtype=dtype, device=device)
        self._absent = [nothing.expand(slot.member.shape) for slot in layout.slots]
        self.release()

    @property
    def address(self) -> int:
        """Where the whole lives now."""
        return self.full.untyped_storage().data_ptr()

    def gather(self) -> Pending:
        """Start to make the parameters whole."""
        self.full.untyped_storage().resize_(self._full_bytes)
        pending = self._collectives.all_gather(self.full, self.owned, block=self.layout.block)
        for slot, place in zip(self.layout.slots, self._places, strict=True):
            slot.member.parameter.data = place
        return pending

    def release(self) -> None:
        """Give the memory of the whole back."""
        for slot, absent in zip(self.layout.slots, self._absent, strict=True):
            slot.member.parameter.data = absent
        self.full.untyped_storage().resize_(0)


def common_values(layout: Layout, collectives: Collectives, device: torch.device) -> Tensor:
    """The bucket in fp32 as rank 0 has it, so that all ranks start from the same weights."""
    flat = torch.empty(layout.padded_elements, dtype=torch.float32, device=device)
    flatten_into(flat, layout, [whole_value(parameter) for parameter in layout.parameters])
    collectives.broadcast(flat, block=layout.block)
    return flat


def publish_whole(some: Sequence[WholeWeights], clock: PhaseClock) -> None:
    """Gather updated buckets, a few at a time."""
    with clock.phase(Phase.GATHER_WAIT):
        under_way: deque[Pending] = deque()
        for weights in some:
            if len(under_way) == GATHERS_IN_FLIGHT:
                under_way.popleft().wait()
            under_way.append(weights.publish())
        while under_way:
            under_way.popleft().wait()
