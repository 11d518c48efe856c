"""Between ranks of one host: each reads what it needs straight out of its peers' memory.

A rank says where its part lies, and goes on. Who needs it reads it, a slice whole or a sum tile by
tile, and says so; then the memory is its owner's again. Of the three copies that sockets make one
is left, and nothing stands in a buffer between.

Whenever a rank launches or waits it serves all that is under way, so it does not matter in which
order ranks wait, and one that runs ahead is not held up for long.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from engine.collectives.neighbours import Neighbours, Word
from engine.collectives.peer_memory import PeerMemory
from engine.collectives.summation import TILE_ELEMENTS, Here, Reduced, reduce_into
from engine.collectives.transports import Arrival, LostPeerSignal, Transport

Key = tuple[int, int]
"""Tag and bytes: notes of different collectives never match."""


@dataclass(frozen=True, kw_only=True, eq=False)
class _There:
    """A peer's slice, where it lies."""

    peer: int
    memory: PeerMemory
    address: int
    elements: int
    tile: Tensor
    """What a part is read into."""

    def part(self, start: int, stop: int) -> Tensor:
        part = self.tile[: stop - start]
        _read(self.peer, self.memory, part, self.address + start * part.element_size())
        return part

    def whole(self) -> Tensor:
        values = torch.empty(self.elements, dtype=self.tile.dtype)
        _read(self.peer, self.memory, values, self.address)
        return values


@dataclass(kw_only=True, eq=False)
class _Exchange:
    """One collective of this rank with its peers."""

    key: Key
    owner: "Direct"
    read: Callable[[Mapping[int, int]], Reduced]
    """Take what lies at the peers' addresses."""
    sources: frozenset[int]
    """The peers that are read ..."""
    unread_by: set[int]
    """... and those that have still to read from here."""
    held: list[Tensor]
    """What is read from and into stays alive until both are done."""
    addresses: dict[int, int] = field(default_factory=dict)
    result: Reduced | None = None

    @property
    def missing(self) -> set[int]:
        """The peers that it needs a note from."""
        return self.unread_by | (self.sources - self.addresses.keys())

    def wait(self) -> Reduced:
        while self.missing or self.result is None:
            self.owner.serve(self)
        self.held.clear()
        return self.result


class Direct:
    """The transport of neighbours."""

    def __init__(self, sockets: Transport, neighbours: Neighbours, *, rank: int) -> None:
        self._sockets = sockets
        self._neighbours = neighbours
        self._rank = rank
        self._world = len(neighbours.memories) + 1
        self._peers = frozenset(neighbours.memories)
        self._under_way: dict[Key, _Exchange] = {}
        self._early: dict[Key, dict[int, int]] = {}
        """What peers launched that this rank has not launched yet."""

    def all_gather(self, full: Tensor, own: Tensor, tag: int) -> Arrival:
        """Read every peer's slice into its place."""
        places = full.view(self._world, -1)
        if places[self._rank].data_ptr() != own.data_ptr():
            places[self._rank].copy_(own)

        def read(addresses: Mapping[int, int]) -> Reduced:
            for peer, address in addresses.items():
                _read(peer, self._neighbours.memories[peer], places[peer], address)
            return Reduced(square_sum=None)

        return self._launch(tag, read, dict.fromkeys(self._peers, own), held=[full, own])

    def reduce_scatter_mean(
        self, source: Tensor, out: Tensor, *, factor: float, add: bool, tag: int
    ) -> Arrival:
        """Read what the peers contribute to the own slice while it is added up, in fp32."""
        slices = source.view(self._world, -1)

        def read(addresses: Mapping[int, int]) -> Reduced:
            contributions = [
                Here(values=slices[self._rank])
                if rank == self._rank
                else _There(
                    peer=rank,
                    memory=self._neighbours.memories[rank],
                    address=addresses[rank],
                    elements=out.numel(),
                    tile=torch.empty(min(TILE_ELEMENTS, out.numel()), dtype=source.dtype),
                )
                for rank in range(self._world)
            ]
            return reduce_into(out, contributions, rank=self._rank, factor=factor, add=add)

        offered = {peer: slices[peer] for peer in self._peers}
        return self._launch(tag, read, offered, held=[source, out])

    def broadcast(self, tensor: Tensor, source: int, tag: int) -> Arrival:
        """The source offers, the others read."""

        def read(addresses: Mapping[int, int]) -> Reduced:
            for peer, address in addresses.items():
                _read(peer, self._neighbours.memories[peer], tensor, address)
            return Reduced(square_sum=None)

        if self._rank == source:
            offered, sources = dict.fromkeys(self._peers, tensor), frozenset[int]()
        else:
            offered, sources = {}, frozenset((source,))
        return self._launch(tag, read, offered, held=[tensor], sources=sources)

    def sent_bytes(self, total_bytes: int, *, broadcast_from: int | None = None) -> int:
        """What peers read from here is what sockets would carry."""
        return self._sockets.sent_bytes(total_bytes, broadcast_from=broadcast_from)

    def break_off(self) -> None:
        """End the lines; peers that wait for this rank go on too."""
        self._neighbours.break_off()

    def close(self) -> None:
        """Give the lines back."""
        self._neighbours.close()

    def serve(self, waiting: _Exchange | None = None) -> None:
        """Take the notes that have come, and do what they allow.

        Stands still for at least one where an exchange is waited for, and fails when a peer that
        it needs is gone.
        """
        if waiting is not None and (gone := waiting.missing & self._neighbours.lost):
            raise LostPeerSignal(min(gone), RuntimeError("its line has ended"))
        for note in self._neighbours.hear(patiently=waiting is not None):
            key = note.tag, note.size_bytes
            exchange = self._under_way.get(key)
            if note.word is Word.READ:
                assert exchange is not None, "it stays under way until all have read"
                exchange.unread_by.discard(note.peer)
                self._advance(exchange)
            elif exchange is None:
                self._early.setdefault(key, {})[note.peer] = note.address
            else:
                exchange.addresses[note.peer] = note.address
                self._advance(exchange)

    def _launch(
        self,
        tag: int,
        read: Callable[[Mapping[int, int]], Reduced],
        offered: Mapping[int, Tensor],
        *,
        held: Sequence[Tensor],
        sources: frozenset[int] | None = None,
    ) -> Arrival:
        size_bytes = held[0].numel() * held[0].element_size()
        key = tag, size_bytes
        exchange = self._under_way[key] = _Exchange(
            key=key,
            owner=self,
            read=read,
            sources=self._peers if sources is None else sources,
            unread_by=set(offered),
            held=list(held),
            addresses=self._early.pop(key, {}),
        )
        for peer, tensor in offered.items():
            assert tensor.is_contiguous(), "it is read as so many bytes from an address on"
            self._neighbours.send(peer, Word.HERE, tag, size_bytes, tensor.data_ptr())
        self.serve()
        self._advance(exchange)
        return exchange

    def _advance(self, exchange: _Exchange) -> None:
        if exchange.result is None and len(exchange.addresses) == len(exchange.sources):
            exchange.result = exchange.read(exchange.addresses)
            for peer in exchange.sources:
                self._neighbours.send(peer, Word.READ, *exchange.key, 0)
        if exchange.result is not None and not exchange.unread_by:
            self._under_way.pop(exchange.key, None)


def _read(peer: int, memory: PeerMemory, into: Tensor, address: int) -> None:
    try:
        memory.read_into(into, address)
    except OSError as error:
        raise LostPeerSignal(peer, RuntimeError(str(error))) from error
