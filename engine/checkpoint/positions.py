"""Where scaler, schedule and parameter groups stand, and how they take up a saved place."""

from collections import Counter
from typing import Any

from torch import Tensor
from torch.optim import Optimizer

from engine.checkpoint.documents import Scaling, Schedule
from engine.checkpoint.plain import from_plain, to_plain
from engine.loss_scale import LossScaler

_HOW = frozenset({"params", "foreach", "fused", "capturable", "differentiable"})
"""How an update is computed, which is for the run at hand to choose, not what it computes."""


def scaling_of(scaler: LossScaler) -> Scaling:
    """The scaler's whole position."""
    return Scaling(dynamic=scaler.dynamic, **scaler.state_dict())


def restore_scaler(scaler: LossScaler, saved: Scaling) -> None:
    """The same place; where only one of the two scales moves, a new beginning at the same step."""
    state: dict[str, Any] = {
        "scale": saved.scale,
        "hysteresis_left": min(saved.hysteresis_left, scaler.policy.hysteresis),
        "iteration": saved.iteration,
        "last_overflow": saved.last_overflow,
        "last_good": saved.last_good,
    }
    if scaler.dynamic and not saved.dynamic:
        state |= {
            "scale": scaler.scale,
            "hysteresis_left": scaler.policy.hysteresis,
            "last_overflow": saved.iteration - 1,
        }
    scaler.load_state_dict(state)


def groups_of(optimizer: Optimizer) -> list[Any]:
    """The settings of each parameter group, plain."""
    return [
        to_plain(
            {
                name: value.item() if isinstance(value, Tensor) else value
                for name, value in group.items()
                if name not in _HOW
            },
            f"parameter group {number}",
        )
        for number, group in enumerate(optimizer.param_groups)
    ]


def restore_groups(optimizer: Optimizer, saved: list[Any]) -> None:
    """The saved settings, in place where they are tensors."""
    for group, plain in zip(optimizer.param_groups, saved, strict=True):
        for name, value in from_plain(plain).items():
            if name in _HOW:
                continue
            if isinstance(group.get(name), Tensor):
                group[name].fill_(value)
            else:
                group[name] = value


def schedule_of(schedule: Any | None) -> Schedule | None:
    """The schedule's own state; None where it has none."""
    if schedule is None or not hasattr(schedule, "state_dict"):
        return None
    kind = type(schedule).__name__
    return Schedule(kind=kind, state=to_plain(schedule.state_dict(), kind))


def restore_schedule(schedule: Any | None, saved: Schedule) -> None:
    """The saved state; what was a counter is one again."""
    if schedule is None:
        return
    state = from_plain(saved.state)
    for name, value in vars(schedule).items():
        if isinstance(value, Counter) and name in state:
            state[name] = Counter(state[name])
    schedule.load_state_dict(state)
