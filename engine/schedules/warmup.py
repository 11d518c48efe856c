"""The schedules that warm up: DeepSpeed's WarmupLR, WarmupDecayLR and WarmupCosineLR.

DeepSpeed counts from the step before (k - 1) and begins with a value of its own; both are kept,
because a run that moves from DeepSpeed must see the same learning rates.
"""

import math
import warnings
from typing import Any

from torch.optim import Optimizer

from engine.config.nearest import unknown
from engine.schedules.position import ByPosition, PerGroup, between, spread, whole_steps


class _Ramp:
    """The climb from 0 at the first step to 1 after `steps`, by logarithm or in a line."""

    def __init__(self, steps: float, shape: str) -> None:
        if shape not in ("log", "linear"):
            raise ValueError(unknown("warmup_type", str(shape), ["log", "linear"]))
        self.steps = max(2, whole_steps("warmup_num_steps", steps))
        self.shape = shape

    def at(self, k: int) -> float | None:
        """Height before step k; None once the top is reached."""
        if k > self.steps:
            return None
        if k == 0:
            return 0.0
        if self.shape == "log":
            return math.log(k) / math.log(self.steps)
        return (k - 1) / self.steps


def _warn_if_short(total: float, ramp: _Ramp) -> None:
    if total < ramp.steps:
        warnings.warn(
            f"total_num_steps {total:g} is less than warmup_num_steps {ramp.steps}:"
            " the run ends while it warms up",
            stacklevel=4,
        )


class WarmupLR(ByPosition):
    """From `warmup_min_lr` up to `warmup_max_lr`, then flat."""

    def __init__(
        self,
        optimizer: Optimizer,
        warmup_min_lr: PerGroup = 0.0,
        warmup_max_lr: PerGroup | None = None,
        warmup_num_steps: float = 1000,
        warmup_type: str = "log",
        last_batch_iteration: int = -1,
    ) -> None:
        if warmup_max_lr is None:
            warmup_max_lr = [float(group["lr"]) for group in optimizer.param_groups]
        self.min_lrs = spread(optimizer, "warmup_min_lr", warmup_min_lr)
        self.max_lrs = spread(optimizer, "warmup_max_lr", warmup_max_lr)
        self.ramp = _Ramp(warmup_num_steps, warmup_type)
        super().__init__(optimizer, last_batch_iteration)

    def at(self, k: int) -> list[Any]:
        height = self.ramp.at(k)
        if height is None:
            height = self._after(k)
        return between(self.min_lrs, self.max_lrs, height)

    def _after(self, k: int) -> float:
        return 1.0


class WarmupDecayLR(WarmupLR):
    """From `warmup_min_lr` up to `warmup_max_lr`, then in a line down towards the former."""

    def __init__(
        self,
        optimizer: Optimizer,
        total_num_steps: float,
        warmup_min_lr: PerGroup = 0.0,
        warmup_max_lr: PerGroup = 0.001,
        warmup_num_steps: float = 1000,
        warmup_type: str = "log",
        last_batch_iteration: int = -1,
    ) -> None:
        self.total = total_num_steps
        super().__init__(
            optimizer,
            warmup_min_lr,
            warmup_max_lr,
            warmup_num_steps,
            warmup_type,
            last_batch_iteration,
        )
        _warn_if_short(self.total, self.ramp)

    def _after(self, k: int) -> float:
        return max(0.0, (self.total - (k - 1)) / max(1.0, self.total - self.ramp.steps))


class WarmupCosineLR(ByPosition):
    """Ratios of each group's own learning rate: up to 1, then along a cosine to `cos_min_ratio`.

    The first step runs at a learning rate of 0 even if `warmup_min_ratio` is higher, as
    DeepSpeed's does.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        total_num_steps: float,
        warmup_min_ratio: float = 0.0,
        warmup_num_steps: float = 1000,
        cos_min_ratio: float = 0.0001,
        warmup_type: str = "log",
        last_batch_iteration: int = -1,
    ) -> None:
        self.total = total_num_steps
        self.warmup_min_ratio = warmup_min_ratio
        self.cos_min_ratio = cos_min_ratio
        self.ramp = _Ramp(warmup_num_steps, warmup_type)
        super().__init__(optimizer, last_batch_iteration)
        _warn_if_short(self.total, self.ramp)

    def at(self, k: int) -> list[Any]:
        ratio = self._ratio(k)
        return [base * ratio for base in self.base_lrs]

    def _ratio(self, k: int) -> float:
        if k == 0:
            return 0.0
        height = self.ramp.at(k)
        if height is not None:
            return self.warmup_min_ratio + (1 - self.warmup_min_ratio) * height
        travelled = min(1.0, (k - self.ramp.steps) / max(1.0, self.total - self.ramp.steps))
        wave = (1 + math.cos(math.pi * travelled)) / 2
        return max(0.0, self.cos_min_ratio + (1 - self.cos_min_ratio) * wave)
