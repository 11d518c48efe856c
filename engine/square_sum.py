"""The sum of squares of gradients, on one rank and of all: the norm, and whether all are finite.

It is gathered in fp32 over short tiles and summed in fp64. Only when that is not finite is it
looked at again element by element in fp64, so large finite gradients are never taken for an
overflow.
"""

import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

import torch
from torch import Tensor

from engine.stages import Stage

TILE_ELEMENTS = 262_144


class Extent(IntEnum):
    """What a rank's sum is of."""

    NOT_FINITE = 0
    """It is no sum: there are gradients that are no numbers."""
    SLICE = 1
    ALL = 2
    """Every rank would find the same."""


@dataclass(frozen=True, kw_only=True)
class SquareSum:
    """What one rank knows."""

    value: float
    extent: Extent

    @property
    def words(self) -> list[int]:
        """As integers, to be shared."""
        return [struct.unpack("<q", struct.pack("<d", self.value))[0], self.extent]

    @classmethod
    def from_words(cls, words: Sequence[int]) -> "SquareSum":
        """What another rank shared."""
        bits, extent = words
        value: float = struct.unpack("<d", struct.pack("<q", bits))[0]
        return cls(value=value, extent=Extent(extent))


def total_of(everyone: Sequence[SquareSum]) -> float | None:
    """The sum over all gradients, the same on every rank; None if one is not finite."""
    if any(each.extent is Extent.NOT_FINITE for each in everyone):
        return None
    of_all = [each.value for each in everyone if each.extent is Extent.ALL]
    return of_all[0] if of_all else math.fsum(each.value for each in everyone)


def square_sum(stage: Stage) -> SquareSum:
    """Of the gradients of this rank's segments; where the reduction told, of its slices."""
    known = stage.square_sum
    if known is not None and math.isfinite(known):
        return SquareSum(value=known, extent=Extent.SLICE)
    extent = Extent.SLICE if stage.gradients_are_sliced else Extent.ALL
    gradients = [each.gradient for each in stage.segments if each.gradient is not None]
    total = _in_fp32(gradients)
    if math.isfinite(total):
        return SquareSum(value=total, extent=extent)
    if not all(bool(gradient.isfinite().all()) for gradient in gradients):
        return SquareSum(value=0.0, extent=Extent.NOT_FINITE)
    exact = float(sum(gradient.double().square().sum() for gradient in gradients))
    return SquareSum(value=exact, extent=extent)


def _in_fp32(gradients: Sequence[Tensor]) -> float:
    dots: list[Tensor] = []
    widened: Tensor | None = None
    for gradient in gradients:
        for piece in torch.split(gradient, TILE_ELEMENTS):
            if piece.dtype != torch.float32:
                if widened is None:
                    widened = torch.empty(TILE_ELEMENTS, dtype=torch.float32, device=piece.device)
                piece = widened[: piece.numel()].copy_(piece)
            dots.append(torch.dot(piece, piece))
    return float(torch.stack(dots).double().sum()) if dots else 0.0
