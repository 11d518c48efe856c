"""What the optimizer sees: long flat pieces of fp32 weights, each of one parameter group.

A segment knows which parameters its elements belong to, so that a bad gradient can be named and a
parameter that took no part can be left out of an update. Its master and its weights are tensors at
any time; where they rest elsewhere, tensors over a single NaN stand in for them until they come.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn import Parameter

from engine.partition import Layout, Span
from engine.storage import Shard, Shelf

MASTER = "master"


@dataclass(kw_only=True, eq=False)
class Segment:
    """A flat piece of what this rank updates."""

    group: int
    master: Parameter
    """fp32; in fp32 training the weights themselves."""
    gradient: Tensor | None
    """The averaged gradient, in whatever type it came; None until there is one."""
    target: Tensor | None
    """16-bit weights that follow the master; None where the master is the weights."""
    spans: tuple[Span, ...]
    """Whose elements these are; positions count from the segment's start."""
    layout: Layout
    """The bucket that it is cut from."""
    start: int
    """Its first element within this rank's slice of that bucket."""
    weights: Shard | None = None
    """Where that slice of the weights rests; None where it is part of whole weights."""
    first_master: Shard | None = None
    """Where that slice of the masters was put when it was made."""
    shelf: Shelf | None = None
    """Where master and states rest; None where they are at hand all the time."""
    at_hand: bool = True
    """Whether master and target are the values, and no stand-ins."""

    @property
    def has_master(self) -> bool:
        """Whether the master is something else than the weights."""
        return self.target is not None

    @property
    def elements(self) -> int:
        """Its length."""
        return self.master.numel()

    def cut(self, start: int, stop: int) -> "Segment":
        """The part from `start` to `stop`, on the same memory."""
        spans = [
            Span(
                member=span.member,
                start=max(span.start, start) - start,
                stop=min(span.stop, stop) - start,
                offset=span.offset + max(start - span.start, 0),
            )
            for span in self.spans
            if span.start < stop and span.stop > start
        ]
        return Segment(
            group=self.group,
            master=Parameter(self.master.detach()[start:stop]),
            gradient=None if self.gradient is None else self.gradient[start:stop],
            target=None if self.target is None else self.target[start:stop],
            spans=tuple(spans),
            layout=self.layout,
            start=self.start + start,
            weights=self.weights,
            first_master=self.first_master,
            at_hand=self.at_hand,
        )


def segments_of(
    layout: Layout,
    rank: int,
    *,
    master: Tensor,
    gradient: Tensor,
    target: Tensor | None,
    weights: Shard | None,
    first_master: Shard | None,
    at_hand: bool,
) -> list[Segment]:
    """This rank's slice of a bucket as one segment a parameter group; padding is in none."""
    spans = layout.spans(rank)
    segments = []
    for group in sorted({_group(span) for span in spans}):
        own = [span for span in spans if _group(span) == group]
        start, stop = own[0].start, own[-1].stop
        segments.append(
            Segment(
                group=group,
                master=Parameter(master[start:stop]),
                gradient=gradient[start:stop],
                target=None if target is None else target[start:stop],
                spans=tuple(
                    replace(span, start=span.start - start, stop=span.stop - start) for span in own
                ),
                layout=layout,
                start=start,
                weights=weights,
                first_master=first_master,
                at_hand=at_hand,
            )
        )
    return segments


def absent(elements: int, dtype: torch.dtype) -> Tensor:
    """A stand-in for values that rest elsewhere: it has a size, and reads as no number."""
    return torch.full((), math.nan, dtype=dtype).expand(elements)


def read_master(segment: Segment) -> Tensor:
    """The values of a segment's master, wherever they rest; not to be written to."""
    if segment.shelf is not None and segment.has_master:
        values = segment.shelf.take()[MASTER].clone()
        segment.shelf.leave()
        return values
    if not segment.has_master and not segment.at_hand:
        assert segment.weights is not None, "what is not at hand rests somewhere"
        flat = segment.weights.open(torch.device("cpu"))
        values = flat[segment.start : segment.start + segment.elements].clone()
        segment.weights.close()
        return values
    return segment.master.detach()


def known_weights(segment: Segment) -> Tensor:
    """The master, or where that would have to be fetched and they need not, the 16-bit weights."""
    here = segment.weights is None or segment.weights.always_at_hand
    if segment.target is not None and segment.shelf is not None and here:
        return segment.target
    return read_master(segment)


def master_slice(layout: Layout, segments: Iterable[Segment]) -> Tensor:
    """This rank's slice of a bucket's masters, put together; the padding is zero."""
    flat = torch.zeros(layout.shard_elements)
    for segment in segments:
        if segment.layout is layout:
            flat[segment.start : segment.start + segment.elements] = read_master(segment)
    return flat


def _group(span: Span) -> int:
    assert span.member.group is not None, "only what is trained has gradients"
    return span.member.group
