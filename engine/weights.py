"""The weights of one bucket: whole on every rank, or a slice that is gathered for use.

Both keep this rank's slice of fp32 master weights where the model computes in 16 bits; in fp32 the
slice of the weights is its own master. Masters rest where the optimizer's states do, and the slices
of gathered weights where the configuration puts parameters.
"""

import math
from collections import deque
from collections.abc import Iterable, Iterator, Sequence

import torch
from torch import Tensor
from torch.nn import Parameter

from engine.buffers import bind, flatten_into
from engine.collectives import Collectives, Pending
from engine.partition import Layout
from engine.segments import MASTER, Segment, absent, segments_of
from engine.sharded_init import whole_value
from engine.storage import Places, Shard
from engine.tracing import PhaseClock
from probe.schema.vocabulary import MemoryCategory, Phase

GATHERS_IN_FLIGHT = 4


class Weights:
    """This rank's slice of a bucket, and its master where it is trained."""

    def __init__(
        self,
        layout: Layout,
        *,
        dtype: torch.dtype,
        values: Tensor,
        collectives: Collectives,
        places: Places,
        trained: bool,
    ) -> None:
        self.layout = layout
        self.trained = trained
        self.dtype = dtype
        self.master: Shard | None = None
        apart = places.link is not None and not places.link.shared
        if trained and (dtype != torch.float32 or apart):
            self.master = Shard(
                places.states,
                f"{layout.block} {MASTER}",
                values[layout.owned(collectives.rank)].clone(),
                MemoryCategory.MASTER_PARAMS,
            )
        self._collectives = collectives

    @property
    def shard(self) -> Shard | None:
        """Where the slice rests on its own; None where it is part of the whole."""
        return None

    @property
    def resting(self) -> Tensor:
        """The slice, or a stand-in of its size where it rests elsewhere."""
        raise NotImplementedError

    def segments(self, gradient: Tensor) -> list[Segment]:
        """What the optimizer sees of it."""
        weights, master, elements = self.resting, self.master, self.layout.shard_elements
        in_memory = master is None or master.always_at_hand
        fp32 = (
            weights
            if master is None
            else master.resting
            if in_memory
            else absent(elements, torch.float32)
        )
        return segments_of(
            self.layout,
            self._collectives.rank,
            master=fp32,
            gradient=gradient,
            target=None if master is None else weights,
            weights=self.shard,
            first_master=master,
            at_hand=in_memory and (self.shard is None or self.shard.always_at_hand),
        )

    def pieces(self, whole: Tensor, masters: Tensor | None) -> Iterator[tuple[Parameter, Tensor]]:
        """Each parameter with its values: of `whole`, or of all ranks' slices of the masters."""
        if masters is not None:
            whole = torch.empty(
                self.layout.padded_elements, dtype=torch.float32, device=whole.device
            )
            block = f"{self.layout.block} masters"
            own = masters.to(whole.device)
            self._collectives.all_gather(whole, own, block=block).wait()
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
        places: Places,
        device: torch.device,
        trained: bool,
    ) -> None:
        values = common_values(layout, collectives, device)
        self.flat = values.to(dtype)
        super().__init__(
            layout,
            dtype=dtype,
            values=values,
            collectives=collectives,
            places=places,
            trained=trained,
        )
        self._own = self.flat[layout.owned(collectives.rank)]
        bind(self.flat, layout, layout.parameters)

    @property
    def resting(self) -> Tensor:
        return self._own

    def publish(self) -> Pending:
        """Tell the other ranks this rank's slice and learn theirs."""
        return self._collectives.all_gather(self.flat, self._own, block=self.layout.block)


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
        places: Places,
        device: torch.device,
        trained: bool,
    ) -> None:
        values = common_values(layout, collectives, device)
        super().__init__(
            layout,
            dtype=dtype,
            values=values,
            collectives=collectives,
            places=places,
            trained=trained,
        )
        self._shard = Shard(
            places.params,
            layout.block,
            values[layout.owned(collectives.rank)].to(dtype, copy=True),
            MemoryCategory.PARAMS,
        )
        self.full = torch.empty(layout.padded_elements, dtype=dtype, device=device)
        self._full_bytes = self.full.untyped_storage().nbytes()
        self._places = [slot.view_of(self.full) for slot in layout.slots]
        nothing = torch.full((), math.nan, dtype=dtype, device=device)
        self._absent = [nothing.expand(slot.member.shape) for slot in layout.slots]
        self.release()

    @property
    def shard(self) -> Shard:
        return self._shard

    @property
    def resting(self) -> Tensor:
        if self._shard.always_at_hand:
            return self._shard.resting
        return absent(self.layout.shard_elements, self.dtype)

    @property
    def address(self) -> int:
        """Where the whole lives now."""
        return self.full.untyped_storage().data_ptr()

    def gather(self) -> Pending:
        """Start to make the parameters whole."""
        own = self._shard.open(self.full.device)
        self.full.untyped_storage().resize_(self._full_bytes)
        pending = self._collectives.all_gather(self.full, own, block=self.layout.block)
        for slot, place in zip(self.layout.slots, self._places, strict=True):
            slot.member.parameter.data = place
        return pending

    def gathered(self) -> None:
        """The parameters are whole: the slice may rest again."""
        self._shard.close()

    def release(self) -> None:
        """Give the memory of the whole back."""
        for slot, nothing in zip(self.layout.slots, self._absent, strict=True):
            slot.member.parameter.data = nothing
        self.full.untyped_storage().resize_(0)


def masters_in_memory(some: Iterable[Weights]) -> list[Tensor]:
    """The master slices that are tensors of this process, whichever memory they are in."""
    shards = [weights.master for weights in some if weights.master is not None]
    return [shard.resting for shard in shards if shard.always_at_hand]


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
