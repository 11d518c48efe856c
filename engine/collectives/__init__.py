"""The only door to torch.distributed: every collective is named, counted and watched here.

`start` meets the peers, `transports` move bytes, `neighbours` finds out whether peers can read each
other's memory and `direct` then does, `summation` adds up, `lookout` watches the waits.
"""

import atexit
import pickle
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import monotonic_ns
from typing import Any

import torch
from torch import Tensor

from engine.buffers import BufferPool
from engine.collectives.direct import Direct
from engine.collectives.lookout import STOPPED, Lookout
from engine.collectives.neighbours import find_neighbours
from engine.collectives.start import Meeting, meet
from engine.collectives.summation import Reduced
from engine.collectives.transports import (
    Arrival,
    LibraryCollectives,
    LostPeerSignal,
    PeerToPeer,
    Transport,
)
from engine.facts import CollectiveFacts, Observer
from engine.marks import Mark
from engine.precision import word_of
from engine.tracing import PhaseClock
from probe.errors import ProbeError
from probe.schema.vocabulary import CollectiveOp, Phase

__all__ = ["Collectives", "Meeting", "Pending", "Reduced", "Tally", "meet"]


@dataclass(kw_only=True)
class Tally:
    """What one operation in one phase amounted to since the last look."""

    calls: int = 0
    logical_bytes: int = 0
    wire_bytes: int = 0
    exposed_ns: int = 0


class Collectives:
    """The collectives of one rank, numbered in the order of their launch."""

    def __init__(self, meeting: Meeting, *, clock: PhaseClock, observer: Observer) -> None:
        self.rank = meeting.group.rank()
        self.world = meeting.group.size()
        self.pool = BufferPool(meeting.device)
        self.observer = observer
        self.tallies: dict[tuple[Phase, CollectiveOp], Tally] = {}
        self.order = 0
        """A running checksum of all that was called: equal on all ranks, or they diverged."""
        self.launched: Pending | None = None
        """The collective that this rank entered last."""
        self.waited_for: Pending | None = None
        """The one that it stands still for now."""
        self.device = meeting.device
        self.clock = clock
        self._sequence = 0
        self._meeting: Meeting | None = meeting
        self._carrier: Transport | None = (
            PeerToPeer(meeting.group, self.pool)
            if meeting.backend == "gloo"
            else LibraryCollectives(meeting.group, self.pool)
        )
        self._lookout: Lookout | None = None
        if self.world > 1:
            self._lookout = Lookout(
                board=meeting.store,
                rank=self.rank,
                world=self.world,
                break_off=lambda: self._transport.break_off(),
            )
            atexit.register(self._say_goodbye)

    @property
    def moved_by(self) -> str:
        """What carries the bytes between ranks: "memory", "sockets" or "library"."""
        if isinstance(self._transport, Direct):
            return "memory"
        return "sockets" if isinstance(self._transport, PeerToPeer) else "library"

    def read_each_other(self, *, willing: bool) -> None:
        """Leave the sockets, if all ranks can and will read each other's memory; all call this."""
        if self.world == 1 or not isinstance(self._transport, PeerToPeer):
            return
        neighbours = find_neighbours(
            self.rank,
            willing=willing,
            share=lambda thing: self.share_objects(thing, block="neighbours"),
        )
        if neighbours is not None:
            self._carrier = Direct(self._transport, neighbours, rank=self.rank)

    @property
    def _transport(self) -> Transport:
        if self._carrier is None:
            raise ProbeError("This engine was closed and has left its peers; build a new one.")
        return self._carrier

    def all_gather(self, full: Tensor, own: Tensor, *, block: str) -> "Pending":
        """Fill `full` with all ranks' `own`, in rank order."""
        return self._launch(
            CollectiveOp.ALL_GATHER,
            full,
            block,
            lambda tag: self._transport.all_gather(full, own, tag),
        )

    def reduce_scatter_mean(
        self, source: Tensor, out: Tensor, *, factor: float, add: bool, block: str
    ) -> "Pending":
        """out = factor × sum over ranks of this rank's slice of `source`, plus out where `add`."""
        return self._launch(
            CollectiveOp.REDUCE_SCATTER,
            source,
            block,
            lambda tag: self._transport.reduce_scatter_mean(
                source, out, factor=factor, add=add, tag=tag
            ),
        )

    def broadcast(self, tensor: Tensor, *, source: int = 0, block: str) -> None:
        """Make `tensor` on every rank that of `source`."""
        self._launch(
            CollectiveOp.BROADCAST,
            tensor,
            block,
            lambda tag: self._transport.broadcast(tensor, source, tag),
            broadcast_from=source,
        ).wait()

    def share(self, words: Sequence[int], *, block: str) -> list[list[int]]:
        """Every rank's integers, in rank order; equally many on each."""
        own = torch.tensor(words, dtype=torch.int64, device=self.device)
        full = torch.empty(self.world * len(words), dtype=torch.int64, device=self.device)
        self.all_gather(full, own, block=block).wait()
        gathered: list[list[int]] = full.view(self.world, -1).tolist()
        return gathered

    def share_objects(self, thing: Any, *, block: str) -> list[Any]:
        """Every rank's object, in rank order; for what is rare and small."""
        raw = pickle.dumps(thing)
        longest = max(length for (length,) in self.share([len(raw)], block=f"{block} sizes"))
        padded = raw.ljust(-(-longest // 8) * 8, b"\0")
        words = [
            int.from_bytes(padded[at : at + 8], "little", signed=True)
            for at in range(0, len(padded), 8)
        ]
        return [
            pickle.loads(b"".join(word.to_bytes(8, "little", signed=True) for word in theirs))
            for theirs in self.share(words, block=block)
        ]

    def now(self, activity: str) -> None:
        """What this rank is doing, for the error message of a rank that waits for it."""
        if self._lookout is not None:
            self._lookout.activity = activity

    def leave_last_words(self, words: str) -> None:
        """Tell the peers why this rank will not take part any more."""
        if self._lookout is not None:
            self._lookout.leave_last_words(words)

    def close(self) -> None:
        """Stop watching and leave the group; peers learn that this rank is done."""
        self._say_goodbye()
        atexit.unregister(self._say_goodbye)
        if self._meeting is not None:
            self._meeting.leave()
            # Whoever still refers to the group keeps its threads.
            self._meeting = self._carrier = self.launched = self.waited_for = None

    def take_tallies(self) -> dict[tuple[Phase, CollectiveOp], Tally]:
        """The counts since the last call."""
        taken, self.tallies = self.tallies, {}
        return taken

    def _say_goodbye(self) -> None:
        if isinstance(self._carrier, Direct):
            self._carrier.close()
        if self._lookout is not None:
            self._lookout.leave_last_words(f"ended its part {self._lookout.activity}")
            self._lookout.close()
            self._lookout = None

    def _launch(
        self,
        op: CollectiveOp,
        tensor: Tensor,
        block: str,
        start: Callable[[int], Arrival],
        *,
        broadcast_from: int | None = None,
    ) -> "Pending":
        self._sequence += 1
        self.order = zlib.crc32(f"{op} {block}".encode(), self.order)
        if self._lookout is not None:
            self._lookout.called(self._sequence, f"{op} of {block}")
        logical_bytes = tensor.numel() * tensor.element_size()
        launched_ns, mark = monotonic_ns(), self.clock.mark()
        # 15 bits of what and 15 bits of which: messages of different collectives never match.
        what = zlib.crc32(f"{op} {block} {tensor.numel()}".encode()) & 0x7FFF
        try:
            arrival = start(what << 15 | self._sequence & 0x7FFF)
        except LostPeerSignal as lost:
            raise self._lost(lost) from lost
        self.launched = pending = Pending(
            owner=self,
            arrival=arrival,
            sequence=self._sequence,
            op=op,
            block=block,
            phase=self.clock.current,
            dtype=word_of(tensor.dtype),
            logical_bytes=logical_bytes,
            wire_bytes=self._transport.sent_bytes(logical_bytes, broadcast_from=broadcast_from),
            launched_ns=launched_ns,
            mark=mark,
        )
        return pending

    def _finish(self, pending: "Pending") -> Reduced:
        began_ns, began_mark = monotonic_ns(), self.clock.mark()
        self.waited_for = pending
        if self._lookout is not None:
            self._lookout.waits()
        try:
            result = pending.arrival.wait()
        except LostPeerSignal as lost:
            raise self._lost(lost) from lost
        finally:
            self.waited_for = None
            if self._lookout is not None:
                self._lookout.goes_on()
        done_ns, done_mark = monotonic_ns(), self.clock.mark()
        marks = None
        if pending.mark is not None and began_mark is not None and done_mark is not None:
            marks = pending.mark, began_mark, done_mark
        facts = CollectiveFacts(
            sequence=pending.sequence,
            op=pending.op,
            phase=pending.phase,
            block=pending.block,
            dtype=pending.dtype,
            logical_bytes=pending.logical_bytes,
            wire_bytes=pending.wire_bytes,
            launched_ns=pending.launched_ns,
            wait_began_ns=began_ns,
            done_ns=done_ns,
            marks=marks,
        )
        tally = self.tallies.setdefault((facts.phase, facts.op), Tally())
        tally.calls += 1
        tally.logical_bytes += facts.logical_bytes
        tally.wire_bytes += facts.wire_bytes
        tally.exposed_ns += facts.exposed_ns
        self.observer.collective_done(facts)
        return result

    def _lost(self, lost: LostPeerSignal) -> ProbeError:
        assert self._lookout is not None, "alone there is nobody to lose"
        explained = self._lookout.explain(lost, lost.peer)
        self._lookout.leave_last_words(f"{STOPPED} {explained}")
        return explained


@dataclass(kw_only=True)
class Pending:
    """A collective on its way; `wait` once."""

    owner: Collectives
    arrival: Arrival
    sequence: int
    op: CollectiveOp
    block: str
    phase: Phase
    dtype: str
    logical_bytes: int
    wire_bytes: int
    launched_ns: int
    mark: Mark | None

    def wait(self) -> Reduced:
        """Stand still until the result is there; of a reduction, what there is to tell."""
        return self.owner._finish(self)
