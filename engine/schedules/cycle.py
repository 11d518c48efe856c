"""The schedules that explore: DeepSpeed's OneCycle and LRRangeTest."""

import math
import warnings
from typing import Any

from torch.optim import Optimizer

from engine.schedules.position import ByPosition, PerGroup, between, spread, whole_steps

ONE_CYCLE_BETA2 = 0.99
"""What DeepSpeed's OneCycle puts in the place of the optimizer's second beta."""


class OneCycle(ByPosition):
    """Up and down once between two learning rates, momentum the other way, then a slow decay.

    Momentum is cycled where the optimizer has `betas`; the second beta becomes 0.99 and the very
    first step runs at `cycle_min_mom`, both as in DeepSpeed.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        cycle_min_lr: PerGroup,
        cycle_max_lr: PerGroup,
        decay_lr_rate: float = 0.0,
        cycle_first_step_size: float = 2000,
        cycle_second_step_size: float | None = None,
        cycle_first_stair_count: int = 0,
        cycle_second_stair_count: int | None = None,
        decay_step_size: float = 0,
        cycle_momentum: bool = True,
        cycle_min_mom: PerGroup = 0.8,
        cycle_max_mom: PerGroup = 0.9,
        decay_mom_rate: float = 0.0,
        last_batch_iteration: int = -1,
    ) -> None:
        second = cycle_first_step_size if cycle_second_step_size is None else cycle_second_step_size
        if cycle_first_step_size <= 0:
            raise ValueError(f"cycle_first_step_size must be above 0, not {cycle_first_step_size}")
        if second < 0:
            raise ValueError(f"cycle_second_step_size must not be negative, not {second}")
        self.first_steps = cycle_first_step_size
        self.second_steps = second
        self.first_stairs = cycle_first_stair_count
        self.second_stairs = (
            cycle_first_stair_count
            if cycle_second_stair_count is None
            else cycle_second_stair_count
        )
        self.min_lrs = spread(optimizer, "cycle_min_lr", cycle_min_lr)
        self.max_lrs = spread(optimizer, "cycle_max_lr", cycle_max_lr)
        self.min_momenta = spread(optimizer, "cycle_min_mom", cycle_min_mom)
        self.max_momenta = spread(optimizer, "cycle_max_mom", cycle_max_mom)
        self.decay_steps = decay_step_size
        self.decay_lr_rate = decay_lr_rate
        self.decay_mom_rate = decay_mom_rate
        self.cycles_momentum = cycle_momentum and "betas" in optimizer.defaults
        if cycle_momentum and not self.cycles_momentum:
            warnings.warn(
                f"{type(optimizer).__name__} has no betas, so OneCycle leaves its momentum alone;"
                " set cycle_momentum to false to say so",
                stacklevel=2,
            )
        super().__init__(optimizer, last_batch_iteration)

    def step(self, epoch: int | None = None) -> None:
        super().step(epoch)
        self._set_momenta()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        super().load_state_dict(state_dict)
        self._set_momenta()

    def _set_momenta(self) -> None:
        if not self.cycles_momentum:
            return
        momenta = self.momenta(self.last_epoch)
        for group, momentum in zip(self.optimizer.param_groups, momenta, strict=True):
            group["betas"] = (momentum, ONE_CYCLE_BETA2)

    def at(self, k: int) -> list[Any]:
        if (decay := self._decay(k, self.decay_lr_rate)) is not None:
            return [low / decay for low in self.min_lrs]
        return between(self.min_lrs, self.max_lrs, self._height(k))

    def momenta(self, k: int) -> list[float]:
        """The first beta of each parameter group in optimizer step k."""
        if k == 0:
            return self.min_momenta
        if (decay := self._decay(k, self.decay_mom_rate)) is not None:
            return [high * decay for high in self.max_momenta]
        return between(self.max_momenta, self.min_momenta, self._height(k))

    def _height(self, k: int) -> float:
        """Where in the cycle: 0 at both ends, 1 at the top, in stairs if there are any."""
        place = k % (self.first_steps + self.second_steps)
        if place <= self.first_steps:
            part, whole, stairs = place, self.first_steps, self.first_stairs
        else:
            part = self.first_steps + self.second_steps - place
            whole, stairs = self.second_steps, self.second_stairs
        return math.floor(part * stairs / whole) / stairs if stairs > 0 else part / whole

    def _decay(self, k: int, rate: float) -> float | None:
        """The factor of the decay after the cycle; None within it."""
        steps = k - (self.first_steps + self.second_steps)
        if steps <= 0:
            return None
        return 1 + rate * steps / self.decay_steps if self.decay_steps else 1.0


class LRRangeTest(ByPosition):
    """Ever higher, in a line or in stairs, to find where training breaks."""

    def __init__(
        self,
        optimizer: Optimizer,
        lr_range_test_min_lr: PerGroup = 1e-3,
        lr_range_test_step_size: float = 2000,
        lr_range_test_step_rate: float = 1.0,
        lr_range_test_staircase: bool = False,
        last_batch_iteration: int = -1,
    ) -> None:
        self.min_lrs = spread(optimizer, "lr_range_test_min_lr", lr_range_test_min_lr)
        self.step_size = whole_steps("lr_range_test_step_size", lr_range_test_step_size)
        self.step_rate = lr_range_test_step_rate
        self.staircase = lr_range_test_staircase
        super().__init__(optimizer, last_batch_iteration)

    def at(self, k: int) -> list[Any]:
        intervals = k / self.step_size
        if self.staircase:
            intervals = math.floor(intervals)
        return [low * (1 + self.step_rate * intervals) for low in self.min_lrs]
