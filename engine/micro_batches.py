"""The micro-batches of one step: their losses, and the one scale that all of them are scaled by."""

from typing import Any

import torch
from torch import Tensor

from probe.errors import UsageError


class MicroBatches:
    """Those whose backward has run since the last update."""

    def __init__(self, rank: int) -> None:
        self.losses: list[Tensor] = []
        self.scale_used: float | None = None
        """Loss scale of their backwards; None before the first."""
        self._rank = rank

    def __len__(self) -> int:
        return len(self.losses)

    def admit(self, loss: Any, scale: float) -> None:
        """Refuse what backward cannot start from, and a scale that changed within the step."""
        if not (isinstance(loss, Tensor) and loss.numel() == 1):
            got = f"shape {tuple(loss.shape)}" if hasattr(loss, "shape") else type(loss).__name__
            raise UsageError(
                f"rank {self._rank}: backward needs a loss of one number, got {got};"
                " reduce it first, with loss.mean() for example"
            )
        if self.scale_used is not None and self.scale_used != scale:
            raise UsageError(
                f"the loss scale went from {self.scale_used:g} to {scale:g}"
                " between two backwards of one step; change it between steps only"
            )

    def take_losses(self) -> list[Tensor]:
        """The losses, once; the next step has none yet."""
        losses, self.losses = self.losses, []
        return losses

    def clear(self) -> None:
        """As before the first backward of a step."""
        self.losses.clear()
        self.scale_used = None


def mean_of(losses: list[Tensor]) -> Tensor:
    """The loss of a step, one number: every micro-batch counts the same."""
    if len(losses) == 1:
        return losses[0]  # Five kernels for nothing are a good part of what a short step has.
    return torch.stack([each.float().reshape(()) for each in losses]).mean()
