"""The arithmetic of a reduction: the mean of all contributions, and who brought a bad value.

Contributions are added in fp32 and in the order of ranks, whatever their own type: rounded once at
the end, and the same on every run. The work goes tile by tile, so that a tile is still in the cache
when it is squared, which also tells whether a value is no number; the origin of one is only looked
for then.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from probe.schema.vocabulary import NonFinite

TILE_ELEMENTS = 65_536


@dataclass(frozen=True, kw_only=True, eq=False)
class Reduced:
    """What there is to tell about a slice that was just averaged."""

    square_sum: float | None
    """Of the slice as it is now, before rounding; None where it was not computed on the way."""
    bad: Sequence["BadValues"] = ()
    """Who brought values that are no numbers, where that is known."""


@dataclass(frozen=True, kw_only=True, eq=False)
class BadValues:
    """What one rank contributed to a slice, where values that are no numbers are marked."""

    rank: int
    values: Tensor
    bad: Tensor
    is_mean: bool = False
    """The mean has overwritten what the rank contributed: its finite values are not the rank's."""


class Contribution(Protocol):
    """What one rank brings to a slice, wherever it lies."""

    def part(self, start: int, stop: int) -> Tensor:
        """These elements, not to be written to and valid until the next call."""

    def whole(self) -> Tensor:
        """All of them, not to be written to."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Here:
    """A contribution in memory of this process."""

    values: Tensor

    def part(self, start: int, stop: int) -> Tensor:
        return self.values[start:stop]

    def whole(self) -> Tensor:
        return self.values


def reduce_into(
    out: Tensor, contributions: Sequence[Contribution], *, rank: int, factor: float, add: bool
) -> Reduced:
    """out = factor × sum of contributions (+ out), and what there is to tell about it.

    `out` may be what this rank, `rank`, contributes.
    """
    own = contributions[rank].whole()
    squares = mean_into(out, contributions, factor=factor, add=add)
    bad: list[BadValues] = []
    if not math.isfinite(squares):
        overwritten = rank if out.data_ptr() == own.data_ptr() else None
        bad = find_bad_values(contributions, mean=out, overwritten=overwritten)
    return Reduced(square_sum=squares, bad=bad)


def mean_into(
    out: Tensor, contributions: Sequence[Contribution], *, factor: float, add: bool
) -> float:
    """out = factor × sum of contributions (+ out); returns the sum of squares, before rounding.

    That is not finite when the result holds a value that is no number, or very large ones. `out`
    may be one of the contributions.
    """
    total = torch.empty(min(TILE_ELEMENTS, out.numel()), dtype=torch.float32, device=out.device)
    widened = torch.empty_like(total)

    def in_fp32(values: Tensor) -> Tensor:
        # Adding 16-bit to fp32 directly takes torch's slow path on CPU; copying first does not.
        if values.dtype == torch.float32:
            return values
        return widened[: values.numel()].copy_(values)

    squares = []
    for start in range(0, out.numel(), TILE_ELEMENTS):
        stop = min(start + TILE_ELEMENTS, out.numel())
        into, tile = total[: stop - start], out[start:stop]
        first, *others = (contribution.part(start, stop) for contribution in contributions)
        if others and first.dtype == torch.float32:
            torch.add(first, others.pop(0), out=into)
        else:
            into.copy_(first)
        for values in others:
            into.add_(in_fp32(values))
        if out.dtype == torch.float32 and not add:
            torch.mul(into, factor, out=tile)
            squares.append(torch.dot(tile, tile))
            continue
        if factor != 1.0:
            into.mul_(factor)
        if add:
            into.add_(in_fp32(tile))
        tile.copy_(into)
        if add and out.dtype == torch.float16:
            # A sum of micro-batches may be more than fp16 holds, unlike a mean over ranks.
            into.copy_(tile)
        squares.append(torch.dot(into, into))
    return float(torch.stack(squares).double().sum()) if squares else 0.0


def find_bad_values(
    contributions: Sequence[Contribution], *, mean: Tensor, overwritten: int | None
) -> list[BadValues]:
    """For each rank that brought values that are no numbers: which.

    `overwritten` is the rank whose contribution the mean has replaced: it is to blame for what is
    bad in the mean and in nobody else's contribution.
    """
    found = []
    unexplained = ~mean.isfinite()
    for rank, contribution in enumerate(contributions):
        if rank != overwritten:
            values = contribution.whole()
            bad = ~values.isfinite()
            unexplained &= ~bad
            found.append(BadValues(rank=rank, values=values.clone(), bad=bad))
    if overwritten is not None:
        found.append(
            BadValues(rank=overwritten, values=mean.clone(), bad=unexplained, is_mean=True)
        )
    return [each for each in found if bool(each.bad.any())]


def kind_of(values: Tensor) -> NonFinite:
    """Infinite, not a number, or both; `values` hold at least one of them."""
    has_nan, has_inf = bool(values.isnan().any()), bool(values.isinf().any())
    if has_nan and has_inf:
        return NonFinite.BOTH
    return NonFinite.NAN if has_nan else NonFinite.INF


def largest_finite(values: Tensor) -> float | None:
    """The largest finite magnitude; None if there is none."""
    finite = values[values.isfinite()]
    return float(finite.abs().max()) if finite.numel() else None
