"""How gradients and weights fit a 16-bit type: histograms of their exponents, every so many steps.

Each rank looks at what it updates (in stage 0, where every rank updates everything, at every n-th
piece), so the cost is divided like the work. A histogram is a count of the exponent fields of fp32,
without a logarithm; what a type would flush to zero or keep with fewer digits follows from it. Of a
long piece evenly spread blocks are looked at. 20M parameters on two ranks take a sixth of a
step.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from engine.precision import word_of
from engine.segments import Segment
from probe.schema.rows import NumericsRow
from probe.schema.vocabulary import TensorRole

FIRST_SAMPLE_STEP = 5
"""The first steps are not like the others; yet a short run shall have a sample too."""
LOOKED_AT_ELEMENTS = 262_144
BLOCK_ELEMENTS = 4096
_BIAS, _FIELDS, _SPECIAL = 127, 256, 255


@dataclass(frozen=True, kw_only=True)
class Reach:
    """Where a type ends towards zero, in powers of two."""

    smallest_normal: int
    half_smallest: int
    """Half its smallest number: this and less is rounded to zero."""


_REACHES = {
    torch.float16: Reach(smallest_normal=-14, half_smallest=-25),
    torch.bfloat16: Reach(smallest_normal=-126, half_smallest=-134),
    torch.float32: Reach(smallest_normal=-126, half_smallest=-150),
}


class Numerics:
    """Looks at gradients and weights around the updates whose turn it is."""

    def __init__(
        self,
        *,
        every_steps: int,
        judged_by: torch.dtype,
        block_of: dict[str, str],
        share: slice,
    ) -> None:
        """`share` is which of the segments are this rank's to look at."""
        self._every_steps = every_steps
        self._judged_by = judged_by
        self._block_of = block_of
        self._share = share
        self._next_step = min(FIRST_SAMPLE_STEP, every_steps - 1)
        self._step = 0
        self._due = False
        self._chosen: set[Segment] = set()
        self._rows: list[NumericsRow] = []

    def step_began(self, step: int) -> None:
        """A step starts."""
        self._step = step

    def take(self) -> list[NumericsRow]:
        """The rows since the last call."""
        rows, self._rows = self._rows, []
        return rows

    def before_update(self, segments: Sequence[Segment], scale: float) -> bool:
        """Look at the gradients; a turn that fell on a skipped step is taken now."""
        self._due = self._step >= self._next_step
        if not self._due:
            return False
        self._next_step = self._step - self._step % self._every_steps + self._every_steps
        self._next_step += min(FIRST_SAMPLE_STEP, self._every_steps - 1)
        self._chosen = set(segments[self._share])
        for segment in segments[self._share]:
            for span in segment.spans if segment.gradient is not None else ():
                assert segment.gradient is not None, "just asked"
                values = _spread(segment.gradient[span.start : span.stop])
                self._note(values, span.member.name, TensorRole.GRADIENT, scale=scale)
        return True

    def after_update(self, segments: Sequence[Segment]) -> None:
        """Look at the weights, and at which of them 16 bits would leave as they were."""
        assert self._due, "asked for by `before_update`"
        for segment in segments:
            for span in segment.spans if segment in self._chosen else ():
                place = slice(span.start, span.stop)
                values = _spread(segment.master.detach()[place])
                lost = None
                if segment.target is not None and segment.gradient is not None:
                    before = _spread(segment.target[place])
                    same = values.to(before.dtype) == before
                    lost = int((same & (_spread(segment.gradient[place]) != 0)).sum())
                self._note(values, span.member.name, TensorRole.WEIGHT, lost=lost)

    def _note(
        self,
        values: Tensor,
        parameter: str,
        role: TensorRole,
        *,
        scale: float | None = None,
        lost: int | None = None,
    ) -> None:
        wide = values.float()
        fields = (wide.view(torch.int32) >> 23) & _SPECIAL
        counts: list[int] = torch.bincount(fields, minlength=_FIELDS).tolist()
        zeros = int((wide == 0).sum()) if counts[0] else 0
        tiny = counts[0] - zeros
        reach = _REACHES[self._judged_by]
        below = _below(wide, counts, tiny, reach)
        normal = sum(counts[reach.smallest_normal + _BIAS : _SPECIAL])
        finite = wide if not counts[_SPECIAL] else wide[wide.isfinite()]
        counts[0] = tiny
        first = next((at for at in range(_SPECIAL) if counts[at]), _BIAS)
        last = next((at for at in range(_SPECIAL - 1, first, -1) if counts[at]), first)
        self._rows.append(
            NumericsRow(
                step=self._step,
                parameter=parameter,
                role=role,
                block=self._block_of.get(parameter),
                dtype=word_of(self._judged_by),
                tensor_elements=wide.numel(),
                zero_elements=zeros,
                subnormal_elements=wide.numel() - zeros - counts[_SPECIAL] - normal - below,
                underflow_elements=below,
                nonfinite_elements=counts[_SPECIAL],
                largest_magnitude=float(finite.abs().max()) if finite.numel() else None,
                lost_update_elements=lost,
                lowest_exponent=first - _BIAS,
                exponent_elements=counts[first : last + 1],
                loss_scale=scale,
            )
        )


def _below(wide: Tensor, counts: list[int], tiny: int, reach: Reach) -> int:
    """How many of the values the type rounds to zero: those up to half its smallest number."""
    half = reach.half_smallest + _BIAS
    if half <= 0:
        if not tiny:
            return 0
        return int(((wide != 0) & (wide.abs() <= 2.0**reach.half_smallest)).sum())
    exactly_half = int((wide.abs() == 2.0**reach.half_smallest).sum()) if counts[half] else 0
    return tiny + sum(counts[1:half]) + exactly_half


def _spread(values: Tensor) -> Tensor:
    """All of a short piece, of a long one blocks that lie evenly over it."""
    blocks = values.numel() // BLOCK_ELEMENTS
    stride = -(-values.numel() // LOOKED_AT_ELEMENTS)
    if stride == 1:
        return values
    return values[: blocks * BLOCK_ELEMENTS].view(blocks, BLOCK_ELEMENTS)[::stride].reshape(-1)
