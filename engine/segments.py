"""What the optimizer sees: long flat pieces of fp32 weights, each of one parameter group.

A segment knows which parameters its elements belong to, so that a bad gradient can be named and a
parameter that took no part can be left out of an update.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn import Parameter

from engine.partition import Layout, Span


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
        )


def segments_of(
    layout: Layout, rank: int, *, master: Tensor, gradient: Tensor, target: Tensor | None
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
            )
        )
    return segments


def publish_masters(segments: Iterable[Segment]) -> None:
    """The 16-bit weights follow their masters."""
    with torch.no_grad():
        for segment in segments:
            if segment.target is not None:
                segment.target.copy_(segment.master)


def _group(span: Span) -> int:
    assert span.member.group is not None, "only what is trained has gradients"
    return span.member.group
