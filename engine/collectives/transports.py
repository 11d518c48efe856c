"""How bytes really move: between peers directly on gloo, by the library's collectives elsewhere.

gloo's `reduce_scatter_tensor` is an all-reduce inside (twice the bytes) and its `all_gather` copies
through a staging buffer. A send to and a receive from each peer, straight out of and into the final
places, moves exactly what ZeRO asks for and is two to five times faster. A message is tagged by its
sequence number and its purpose, so messages of two different collectives can never be mistaken for
each other: ranks that disagree wait, and the lookout tells them apart.
"""

from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Protocol

import torch
import torch.distributed as dist
from torch import Tensor

from engine.buffers import BufferPool
from engine.collectives.summation import Here, Reduced, reduce_into

_NEVER_SENT = 2**31 - 1
_NOTHING = Reduced(square_sum=None)


class Arrival(Protocol):
    """Something that is on its way."""

    def wait(self) -> Reduced:
        """Stand still until the result is in place; of a reduction, what there is to tell of it."""


class Transport(Protocol):
    """What the engine needs of a backend."""

    def all_gather(self, full: Tensor, own: Tensor, tag: int) -> Arrival:
        """Fill `full` with every rank's `own`, in the order of ranks."""

    def reduce_scatter_mean(
        self, source: Tensor, out: Tensor, *, factor: float, add: bool, tag: int
    ) -> Arrival:
        """out = factor × sum over ranks of this rank's slice of `source` (+ out)."""

    def broadcast(self, tensor: Tensor, source: int, tag: int) -> Arrival:
        """Every rank's tensor becomes that of rank `source`."""

    def sent_bytes(self, total_bytes: int, *, broadcast_from: int | None = None) -> int:
        """Bytes this rank sends for one gather, reduce-scatter or broadcast of `total_bytes`."""

    def break_off(self) -> None:
        """End all that is waited for with an error."""


class LostPeerSignal(RuntimeError):  # noqa: N818
    """The transport failed while it waited for this peer."""

    def __init__(self, peer: int, cause: RuntimeError) -> None:
        super().__init__(str(cause))
        self.peer = peer


@dataclass(kw_only=True)
class _Messages:
    """Sends and receives under way."""

    works: list[tuple[int, dist.Work]]
    held: list[Tensor] = field(default_factory=list)
    """What the sockets read from and write to stays alive until they are done."""

    def wait(self) -> Reduced:
        for peer, work in self.works:
            try:
                work.wait()
            except RuntimeError as error:
                raise LostPeerSignal(peer, error) from error
        self.held.clear()
        return _NOTHING


@dataclass(kw_only=True)
class _Contributions:
    """The contributions of all ranks to one slice, to be averaged once they are there."""

    messages: _Messages
    own: Tensor
    inbox: Tensor
    out: Tensor
    rank: int
    factor: float
    add: bool
    pool: BufferPool

    def wait(self) -> Reduced:
        self.messages.wait()
        peers = list(torch.split(self.inbox, self.out.numel())) if self.inbox.numel() else []
        contributions = [
            Here(values=values) for values in (*peers[: self.rank], self.own, *peers[self.rank :])
        ]
        reduced = reduce_into(
            self.out, contributions, rank=self.rank, factor=self.factor, add=self.add
        )
        self.pool.give(self.inbox)
        return reduced


class PeerToPeer:
    """Sends and receives between every two ranks of one gloo group."""

    def __init__(self, group: dist.ProcessGroup, pool: BufferPool) -> None:
        self._group = group
        self._pool = pool
        self._rank = group.rank()
        self._world = group.size()
        self._peers = [peer for peer in range(self._world) if peer != self._rank]

    def all_gather(self, full: Tensor, own: Tensor, tag: int) -> Arrival:
        """Send the own slice to every peer and receive theirs into their places."""
        places = full.view(self._world, -1)
        works = [(peer, self._receive(places[peer], peer, tag)) for peer in self._peers]
        works += [(peer, self._send(own, peer, tag)) for peer in self._peers]
        if places[self._rank].data_ptr() != own.data_ptr():
            places[self._rank].copy_(own)
        return _Messages(works=works, held=[full, own])

    def reduce_scatter_mean(
        self, source: Tensor, out: Tensor, *, factor: float, add: bool, tag: int
    ) -> Arrival:
        """Send each peer its slice, receive what they contribute to the own one, add in fp32."""
        slices = source.view(self._world, -1)
        shard = slices.shape[1]
        inbox = self._pool.take(shard * len(self._peers), source.dtype)
        works = [
            (peer, self._receive(inbox[place * shard : (place + 1) * shard], peer, tag))
            for place, peer in enumerate(self._peers)
        ]
        works += [(peer, self._send(slices[peer], peer, tag)) for peer in self._peers]
        return _Contributions(
            messages=_Messages(works=works, held=[source, inbox]),
            own=slices[self._rank],
            inbox=inbox,
            out=out,
            rank=self._rank,
            factor=factor,
            add=add,
            pool=self._pool,
        )

    def broadcast(self, tensor: Tensor, source: int, tag: int) -> Arrival:
        """The source sends to every peer."""
        if self._rank == source:
            works = [(peer, self._send(tensor, peer, tag)) for peer in self._peers]
        else:
            works = [(source, self._receive(tensor, source, tag))]
        return _Messages(works=works, held=[tensor])

    def sent_bytes(self, total_bytes: int, *, broadcast_from: int | None = None) -> int:
        """Every peer is sent its slice; or the whole, by the source of a broadcast."""
        if broadcast_from is not None:
            return total_bytes * len(self._peers) if self._rank == broadcast_from else 0
        return total_bytes * len(self._peers) // self._world

    def break_off(self) -> None:
        """A receive that times out at once is gloo's way to close a group; all waits end."""
        nothing = torch.empty(1)
        for peer in self._peers:
            with suppress(RuntimeError):
                work = dist.irecv(nothing, group=self._group, group_src=peer, tag=_NEVER_SENT)
                assert work is not None
                work.wait(timedelta(milliseconds=1))

    def _send(self, tensor: Tensor, peer: int, tag: int) -> dist.Work:
        try:
            work = dist.isend(tensor, group=self._group, group_dst=peer, tag=tag)
        except RuntimeError as error:
            raise LostPeerSignal(peer, error) from error
        assert work is not None, "this rank belongs to the group"
        return work

    def _receive(self, tensor: Tensor, peer: int, tag: int) -> dist.Work:
        try:
            work = dist.irecv(tensor, group=self._group, group_src=peer, tag=tag)
        except RuntimeError as error:
            raise LostPeerSignal(peer, error) from error
        assert work is not None, "this rank belongs to the group"
        return work


@dataclass(kw_only=True)
class _LibraryReduced:
    """A library's reduce-scatter whose result is still to be put in its place."""

    work: dist.Work | None
    source: Tensor
    result: Tensor
    out: Tensor
    add: bool
    pool: BufferPool

    def wait(self) -> Reduced:
        if self.work is not None:
            self.work.wait()
        if self.add:
            self.out.add_(self.result)
        else:
            self.out.copy_(self.result)
        self.pool.give(self.result)
        return _NOTHING  # Who brought a bad value is not knowable from the sum; the parameter is.


class LibraryCollectives:
    """The library's own collectives, where those move the true volume (NCCL)."""

    def __init__(self, group: dist.ProcessGroup, pool: BufferPool) -> None:
        self._group = group
        self._pool = pool
        self._rank = group.rank()
        self._world = group.size()

    def all_gather(self, full: Tensor, own: Tensor, tag: int) -> Arrival:
        """`all_gather_into_tensor`; in place when `own` already is a part of `full`."""
        del tag  # The library matches calls by their order.
        work = dist.all_gather_into_tensor(full, own, group=self._group, async_op=True)
        return _Messages(works=[] if work is None else [(self._rank, work)], held=[full, own])

    def reduce_scatter_mean(
        self, source: Tensor, out: Tensor, *, factor: float, add: bool, tag: int
    ) -> Arrival:
        """`reduce_scatter_tensor`, then the factor."""
        del tag
        result = self._pool.take(out.numel(), source.dtype)
        # The factor comes first when it shrinks: a sum of fp16 numbers must not overflow on its
        # way.
        source.mul_(factor)
        work = dist.reduce_scatter_tensor(result, source, group=self._group, async_op=True)
        return _LibraryReduced(
            work=work, result=result, out=out, add=add, pool=self._pool, source=source
        )

    def broadcast(self, tensor: Tensor, source: int, tag: int) -> Arrival:
        """`broadcast`."""
        del tag
        work = dist.broadcast(tensor, group=self._group, group_src=source, async_op=True)
        return _Messages(works=[] if work is None else [(source, work)], held=[tensor])

    def sent_bytes(self, total_bytes: int, *, broadcast_from: int | None = None) -> int:
        """Rings: (n-1)/n of the whole, for a broadcast about the whole."""
        if broadcast_from is not None:
            return total_bytes if self._world > 1 else 0
        return total_bytes * (self._world - 1) // self._world

    def break_off(self) -> None:
        """The library's own watchdog ends its waits."""
