"""What the five schedules have in common: each is a function of the index of the step alone.

`k` is the index of the optimizer step to come, torch's `last_epoch`. The engine calls `step()`
after each step that was applied, so a skipped step repeats its learning rate.
"""

from collections.abc import Sequence
from typing import Any

from torch import Tensor
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

PerGroup = float | Sequence[float]
"""One number for all parameter groups, or one for each."""


class ByPosition(LRScheduler):
    """A schedule that is a function of k alone: its position is all its state.

    So a run resumed with other parameters follows those, and DeepSpeed's saved schedules load.
    """

    def at(self, k: int) -> list[Any]:
        """The learning rate of each parameter group in optimizer step k."""
        raise NotImplementedError

    def get_lr(self) -> list[Any]:
        return self.at(self.last_epoch)

    def state_dict(self) -> dict[str, Any]:
        return {"last_batch_iteration": self.last_epoch - 1}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.last_epoch = state_dict["last_batch_iteration"] + 1
        rates = self.at(self.last_epoch)
        for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(rate)  # in place: a captured graph holds this very tensor
            else:
                group["lr"] = rate
        self._last_lr = rates


def spread(optimizer: Optimizer, name: str, value: PerGroup) -> list[float]:
    """One value for each parameter group: the given ones, or the given one for all."""
    groups = len(optimizer.param_groups)
    if not isinstance(value, Sequence):
        return [value] * groups
    if len(value) != groups:
        raise ValueError(f"{name} has {len(value)} values for {groups} parameter groups")
    return list(value)


def whole_steps(name: str, value: float) -> int:
    """A positive whole number of steps; files often write them as 1e3."""
    if isinstance(value, bool) or value != int(value) or value < 1:
        raise ValueError(f"{name} must be a whole number of steps, at least 1, not {value!r}")
    return int(value)


def between(lows: list[float], highs: list[float], height: float) -> list[float]:
    """The points at a height between lows (0) and highs (1), group by group."""
    return [low + (high - low) * height for low, high in zip(lows, highs, strict=True)]
