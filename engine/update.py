"""The optimizer step of one rank: agree, unscale, clip, update its segments.

every rank   squares of its gradients, finite or not, which parameters took part
together     one small exchange
every rank   the same decision: skip, or gradient × (clip / scale) -> optimizer -> masters
             -> this rank's 16-bit weights, a part of the segments after the other
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor
from torch.optim import Optimizer

from engine.collectives import Collectives
from engine.facts import BadTensor
from engine.failures import OrderError
from engine.first_bad import FirstBad
from engine.offenders import agree_on_offenders, name_bad_segments, norm_of
from engine.optimizers import prefer_fused, require_elementwise, steps_in_parts
from engine.partition import Member
from engine.segments import Segment
from engine.square_sum import SquareSum, square_sum, total_of
from engine.stages import Stage
from engine.states import States
from engine.storage import Places
from engine.tiled_adam import TiledAdam

PART_ELEMENTS = 1_048_576
MASK_BITS = 62


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What became of a step."""

    applied: bool
    gradient_norm: float
    """Unscaled, before clipping; inf or NaN when skipped."""
    clip_coefficient: float | None = None
    """What clipping multiplied the gradients by; None where it is off."""
    offenders: tuple[BadTensor, ...] = ()
    """Why it was skipped; the first to come first."""


class UpdateWatch(Protocol):
    """Whoever looks at gradients and weights around an update, and changes nothing."""

    def before_update(self, segments: Sequence[Segment], scale: float) -> bool:
        """The gradients are agreed upon, and carry the scale; True to see the update as well."""

    def after_update(self, segments: Sequence[Segment]) -> None:
        """The masters of these segments are new; their 16-bit weights do not follow yet."""


class Update:
    """Updates the segments of a stage with any element-wise optimizer."""

    def __init__(
        self,
        *,
        optimizer: Optimizer,
        stage: Stage,
        members: Sequence[Member],
        collectives: Collectives,
        places: Places,
        clip_norm: float,
        sub_group_elements: int,
    ) -> None:
        require_elementwise(optimizer)
        prefer_fused(optimizer)
        self.optimizer = optimizer
        self._stage = stage
        self._collectives = collectives
        self._clip_norm = clip_norm
        self._trained = [member for member in members if member.group is not None]
        self.first_bad = FirstBad(self._trained)
        self.watch: UpdateWatch | None = None
        self._bit_of = {member.index: bit for bit, member in enumerate(self._trained)}
        self._in_parts = steps_in_parts(optimizer)
        self._tiled = TiledAdam(optimizer, collectives.pool)
        self._part_elements = min(sub_group_elements, PART_ELEMENTS)
        if self._in_parts:
            stage.segments = [
                piece for segment in stage.segments for piece in self._short_enough(segment)
            ]
        self._link = places.link
        # What comes from elsewhere comes and goes alone, so that few buffers serve.
        self._alone = not (places.states.always_at_hand and places.params.always_at_hand)
        self._at_home = self._link is None and not self._alone
        self.states = States(optimizer, places, collectives.device)
        self.states.adopt(stage.segments)

    def run(self, *, scale: float) -> Outcome:
        """Step with gradients that were scaled by `scale`; every rank must call it."""
        unused = self._mask()
        everyone = self._collectives.share(
            [*square_sum(self._stage).words, self._collectives.order, *unused],
            block="norm and finite check",
        )
        self._require_same_order([theirs[2] for theirs in everyone])
        total = total_of([SquareSum.from_words(theirs[:2]) for theirs in everyone])
        if total is None:
            offenders = self._name_offenders()
            return Outcome(applied=False, gradient_norm=norm_of(offenders), offenders=offenders)
        norm = math.sqrt(total) / scale
        clip = min(1.0, self._clip_norm / (norm + 1e-6)) if self._clip_norm > 0 else None
        factor = 1 / scale
        if clip is not None:
            factor *= clip
        unused_anywhere = self._unused_anywhere([theirs[3:] for theirs in everyone])
        if unused_anywhere:
            self.set_apart(unused_anywhere)
        watch = self.watch
        if watch is not None and not watch.before_update(self._stage.segments, scale):
            watch = None
        self._apply(factor, unused_anywhere, watch)
        return Outcome(applied=True, gradient_norm=norm, clip_coefficient=clip)

    def optimizer_states(self) -> list[Tensor]:
        """The tensors that the optimizer holds in memory."""
        return self.states.tensors

    # - One state at a time, wherever it rests

    def state_names(self, segment: Segment) -> list[str]:
        """The names that `read_state` knows for a segment: "master" and the optimizer's own."""
        return self.states.names(segment)

    def read_state(self, segment: Segment, name: str) -> Tensor:
        """A copy of one state in host memory: 1-D, or 0-d for a counter."""
        return self.states.read(segment, name)

    def write_state(self, segment: Segment, name: str, tensor: Tensor) -> None:
        """Set one state; this rank's 16-bit weights follow their master."""
        self.states.write(segment, name, tensor)

    def forget_states(self) -> None:
        """The optimizer is as new; the masters stay."""
        self.states.forget(self._stage.segments)

    # - Agree

    def _mask(self) -> list[int]:
        """Which trained parameters had a gradient here, as bits of a few words."""
        words = [0] * -(-len(self._trained) // MASK_BITS)
        for index in self._stage.used:
            bit = self._bit_of[index]
            words[bit // MASK_BITS] |= 1 << bit % MASK_BITS
        return words

    def _unused_anywhere(self, masks: Sequence[Sequence[int]]) -> frozenset[int]:
        """Indices of parameters that had a gradient on no rank: they are left as they are."""
        used = [0] * (len(masks[0]))
        for mask in masks:
            used = [one | other for one, other in zip(used, mask, strict=True)]
        return frozenset(
            member.index
            for bit, member in enumerate(self._trained)
            if not used[bit // MASK_BITS] >> bit % MASK_BITS & 1
        )

    def _require_same_order(self, orders: Sequence[int]) -> None:
        for rank, order in enumerate(orders):
            if order != orders[0]:
                raise OrderError(
                    f"rank {rank} called its collectives in another order than rank 0 in this step,"
                    " so its gradients belong to other blocks. Every rank must run the same blocks"
                    " in the same order."
                )

    def _name_offenders(self) -> tuple[BadTensor, ...]:
        return agree_on_offenders(
            self._stage.bad,
            lambda: name_bad_segments(self._stage.segments) if self._owns_sums else [],
            first_bad=self.first_bad,
            collectives=self._collectives,
        )

    @property
    def _owns_sums(self) -> bool:
        # Where nothing is sliced every rank would name the same sums.
        return self._stage.gradients_are_sliced or self._collectives.rank == 0

    # - Apply

    def _apply(self, factor: float, unused: frozenset[int], watch: UpdateWatch | None) -> None:
        segments = [
            segment
            for segment in self._stage.segments
            if segment.gradient is not None and segment.spans[0].member.index not in unused
        ]
        if watch is None and self._at_home and self._tiled.can_step(segments):
            self._tiled.step(segments, factor)
            return
        parts = list(self._parts(segments))
        for at, part in enumerate(parts):
            self.states.bring(part)
            for later in parts[at + 1 :] if self._alone else ():
                if not self.states.expect(later):
                    break
            self._step(part, factor)
            if watch is not None:
                watch.after_update(part)
            self._follow(part)
            self.states.put_back(part)
        self.states.install(self._stage.segments)
        self.states.settle()
        if self._link is not None:
            self._link.settle()
        if self._alone and parts:
            self.states.expect(parts[0])

    def _parts(self, segments: Sequence[Segment]) -> Iterator[list[Segment]]:
        """As many segments at once as one call of the optimizer gets."""
        part: list[Segment] = []
        elements = 0
        for segment in segments:
            full = elements + segment.elements > self._part_elements
            if part and self._in_parts and (full or self._alone):
                yield part
                part, elements = [], 0
            part.append(segment)
            elements += segment.elements
        yield part

    def _step(self, part: Sequence[Segment], factor: float) -> None:
        """One call of the optimizer, with the gradients of these segments alone."""
        lent: Tensor | None = None
        start = 0
        for segment in part:
            gradient = segment.gradient
            assert gradient is not None, "left out otherwise"
            if self._link is not None:
                gradient = self._link.out(gradient)
            if gradient.dtype != torch.float32:
                if lent is None:
                    elements = sum(each.elements for each in part)
                    lent = self._collectives.pool.take(elements, torch.float32)
                gradient = lent[start : start + segment.elements].copy_(gradient)
                start += segment.elements
            if factor != 1.0:
                gradient.mul_(factor)
            segment.master.grad = gradient
        if self._in_parts:
            # The optimizer walks all its parameters in every call: let it see only these.
            self.states.install(part)
        self.optimizer.step()
        for segment in part:
            segment.master.grad = None
        if lent is not None:
            self._collectives.pool.give(lent)

    @torch.no_grad()
    def _follow(self, part: Sequence[Segment]) -> None:
        """The 16-bit weights follow their masters."""
        for segment in part:
            if segment.target is None:
                continue
            if self._link is not None:
                self._link.back(segment.master, segment.target)
            else:
                segment.target.copy_(segment.master)

    # - Segments

    def _short_enough(self, segment: Segment) -> list[Segment]:
        if segment.elements <= self._part_elements:
            return [segment]
        starts = range(0, segment.elements, self._part_elements)
        return [
            segment.cut(start, min(start + self._part_elements, segment.elements))
            for start in starts
        ]

    def set_apart(self, unused: frozenset[int]) -> None:
        """Give unused parameters segments of their own, so that the others can be updated alone."""
        segments = []
        for segment in self._stage.segments:
            cuts = [0]
            for before, after in zip(segment.spans, segment.spans[1:], strict=False):
                if before.member.index in unused or after.member.index in unused:
                    cuts.append(after.start)
            if len(cuts) == 1:
                segments.append(segment)
                continue
            segments += self.states.split(segment, cuts)
        if len(segments) != len(self._stage.segments):
            self._stage.segments = segments
            self.states.install(segments)
