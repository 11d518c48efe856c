"""The optimizer step of one rank: agree, unscale, clip, update its segments.

    every rank   squares of its gradients, finite or not, which parameters took part
    together     one small exchange
    every rank   the same decision: skip, or gradient × (clip / scale) -> optimizer -> masters

The norm is gathered in fp32 over short tiles and summed in fp64. Only when that is not finite is it
looked at again element by element in fp64, so large finite gradients are never taken for an
overflow.
"""

import math
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.nn import Parameter
from torch.optim import Optimizer

from engine.collectives import Collectives
from engine.facts import BadTensor
from engine.failures import OrderError
from engine.first_bad import FirstBad
from engine.offenders import agree_on_offenders, name_bad_segments, norm_of
from engine.optimizers import prefer_fused, require_elementwise, steps_in_parts
from engine.partition import Member
from engine.segments import Segment
from engine.stages import Stage
from probe.errors import UsageError

NORM_TILE_ELEMENTS = 262_144
PART_ELEMENTS = 1_048_576
MASK_BITS = 62
_PYTHON_NUMBERS = {bool: torch.bool, int: torch.int64, float: torch.float64}


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

    def before_update(self, segments: Sequence[Segment], scale: float) -> None:
        """The gradients are agreed upon, and carry the scale."""

    def after_update(self, segments: Sequence[Segment]) -> None:
        """The masters are new; 16-bit weights do not follow yet."""


class Update:
    """Updates the segments of a stage with any element-wise optimizer."""

    def __init__(
        self,
        *,
        optimizer: Optimizer,
        stage: Stage,
        members: Sequence[Member],
        collectives: Collectives,
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
        self._part_elements = min(sub_group_elements, PART_ELEMENTS)
        if self._in_parts:
            stage.segments = [
                piece for segment in stage.segments for piece in self._short_enough(segment)
            ]
        whole_states = dict(optimizer.state)
        optimizer.state.clear()
        for segment in stage.segments if whole_states else ():
            self._take_over(segment, whole_states)
        self._install()

    def run(self, *, scale: float) -> Outcome:
        """Step with gradients that were scaled by `scale`; every rank must call it."""
        squares, finite = self._square_sum()
        unused = self._mask()
        words = [struct.unpack("<q", struct.pack("<d", squares))[0], int(finite)]
        everyone = self._collectives.share(
            [*words, self._collectives.order, *unused], block="norm and finite check"
        )
        self._require_same_order([theirs[2] for theirs in everyone])
        if not all(theirs[1] for theirs in everyone):
            offenders = self._name_offenders()
            return Outcome(applied=False, gradient_norm=norm_of(offenders), offenders=offenders)
        parts = [struct.unpack("<d", struct.pack("<q", theirs[0]))[0] for theirs in everyone]
        total = math.fsum(parts) if self._stage.gradients_are_sliced else parts[0]
        norm = math.sqrt(total) / scale
        clip = min(1.0, self._clip_norm / (norm + 1e-6)) if self._clip_norm > 0 else None
        factor = 1 / scale
        if clip is not None:
            factor *= clip
        if self.watch is not None:
            self.watch.before_update(self._stage.segments, scale)
        self._apply(factor, self._unused_anywhere([theirs[3:] for theirs in everyone]))
        if self.watch is not None:
            self.watch.after_update(self._stage.segments)
        return Outcome(applied=True, gradient_norm=norm, clip_coefficient=clip)

    def optimizer_states(self) -> list[Tensor]:
        """The tensors that the optimizer holds."""
        return [
            value
            for state in self.optimizer.state.values()
            for value in state.values()
            if isinstance(value, Tensor)
        ]

    # - States one at a time, wherever they rest

    def state_names(self, segment: Segment) -> list[str]:
        """What there is of a segment: "master", and the optimizer's states under their names."""
        state = self.optimizer.state.get(segment.master, {})
        return ["master", *(name for name, value in state.items() if value is not None)]

    def read_state(self, segment: Segment, name: str) -> Tensor:
        """A flat tensor of the segment's elements, or one of no dimension for a mere number.

        A number of Python's comes as int64, float64 or bool, which no torch optimizer uses for one.
        """
        if name == "master":
            return segment.master.detach()
        value = self.optimizer.state[segment.master][name]
        if isinstance(value, bool | int | float):
            return torch.tensor(value, dtype=_PYTHON_NUMBERS[type(value)])
        if isinstance(value, Tensor) and (value.dim() == 0 or value.shape == segment.master.shape):
            return value.detach()
        raise UsageError(
            f"{type(self.optimizer).__name__} keeps {name!r} as {type(value).__name__}, which"
            " belongs to no element of a parameter, so it cannot be saved"
        )

    def write_state(self, segment: Segment, name: str, tensor: Tensor) -> None:
        """Put in the place of a state what `read_state` gave."""
        if name == "master":
            with torch.no_grad():
                segment.master.copy_(tensor)
            return
        state = self.optimizer.state[segment.master]
        if tensor.dim():
            state[name] = tensor.to(segment.master.device, copy=True)
        elif tensor.dtype in _PYTHON_NUMBERS.values():
            state[name] = tensor.item()
        else:
            group = self.optimizer.param_groups[segment.group]
            on_device = group.get("fused") or group.get("capturable")
            state[name] = tensor.to(segment.master.device if on_device else "cpu", copy=True)

    def forget_states(self) -> None:
        """The optimizer is as new; the masters stay."""
        self.optimizer.state.clear()

    # - Agree

    def _square_sum(self) -> tuple[float, bool]:
        """The sum of squares of this rank's gradients, and whether all of them are finite."""
        known = self._stage.square_sum
        if known is not None and math.isfinite(known):
            return known, True
        dots: list[Tensor] = []
        widened: Tensor | None = None
        for segment in self._stage.segments:
            gradient = segment.gradient
            if gradient is None:
                continue
            for piece in torch.split(gradient, NORM_TILE_ELEMENTS):
                if piece.dtype != torch.float32:
                    if widened is None:
                        widened = torch.empty(
                            NORM_TILE_ELEMENTS, dtype=torch.float32, device=piece.device
                        )
                    piece = widened[: piece.numel()].copy_(piece)
                dots.append(torch.dot(piece, piece))
        if not dots:
            return 0.0, True
        total = float(torch.stack(dots).double().sum())
        if math.isfinite(total):
            return total, True
        gradients = [s.gradient for s in self._stage.segments if s.gradient is not None]
        if not all(bool(gradient.isfinite().all()) for gradient in gradients):
            return 0.0, False
        return float(sum(gradient.double().square().sum() for gradient in gradients)), True

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

    def _apply(self, factor: float, unused: frozenset[int]) -> None:
        if unused:
            self.set_apart(unused)
        part: list[Segment] = []
        elements = 0
        for segment in self._stage.segments:
            if segment.gradient is None or segment.spans[0].member.index in unused:
                continue
            if self._in_parts and part and elements + segment.elements > self._part_elements:
                self._step(part, elements, factor)
                part, elements = [], 0
            part.append(segment)
            elements += segment.elements
        self._step(part, elements, factor)

    def _step(self, part: Sequence[Segment], elements: int, factor: float) -> None:
        """One call of the optimizer, with the gradients of these segments alone."""
        lent: Tensor | None = None
        start = 0
        for segment in part:
            gradient = segment.gradient
            assert gradient is not None, "left out otherwise"
            if gradient.dtype != torch.float32:
                if lent is None:
                    lent = self._collectives.pool.take(elements, torch.float32)
                gradient = lent[start : start + segment.elements].copy_(gradient)
                start += segment.elements
            if factor != 1.0:
                gradient.mul_(factor)
            segment.master.grad = gradient
        self.optimizer.step()
        for segment in part:
            segment.master.grad = None
        if lent is not None:
            self._collectives.pool.give(lent)

    # - Segments and the optimizer's parameter groups

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
            for start, stop in zip(cuts, [*cuts[1:], segment.elements], strict=True):
                piece = segment.cut(start, stop)
                self._inherit(segment, piece, start, stop)
                segments.append(piece)
            self.optimizer.state.pop(segment.master, None)
        if len(segments) != len(self._stage.segments):
            self._stage.segments = segments
            self._install()

    def _inherit(self, whole: Segment, piece: Segment, start: int, stop: int) -> None:
        state = self.optimizer.state.get(whole.master)
        if not state:
            return
        self.optimizer.state[piece.master] = {
            key: (
                value[start:stop]
                if isinstance(value, Tensor) and value.shape == whole.master.shape
                else value.clone()
                if isinstance(value, Tensor)
                else value
            )
            for key, value in state.items()
        }

    def _take_over(self, segment: Segment, whole_states: Mapping[Tensor, Any]) -> None:
        """States from before sharding: a resumed optimizer's, or Adagrad's first sums."""
        states = [(span, whole_states.get(span.member.parameter, {})) for span in segment.spans]
        if not states[0][1]:
            return
        state: dict[str, Any] = {}
        for key, first in states[0][1].items():
            if isinstance(first, Tensor) and first.shape == segment.spans[0].member.shape:
                flat = torch.zeros_like(segment.master, dtype=first.dtype)
                for span, each in states:
                    size = span.stop - span.start
                    part = each[key].view(-1)[span.offset : span.offset + size]
                    flat[span.start : span.stop].copy_(part)
                state[key] = flat
            else:
                state[key] = first.clone() if isinstance(first, Tensor) else first
        self.optimizer.state[segment.master] = state

    def _install(self) -> None:
        for number, group in enumerate(self.optimizer.param_groups):
            own: list[Parameter] = [
                segment.master for segment in self._stage.segments if segment.group == number
            ]
            group["params"] = own
