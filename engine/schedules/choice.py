"""From the name of a schedule and its parameters to a scheduler of torch."""

import inspect
from collections.abc import Mapping

from torch.optim import Optimizer, lr_scheduler
from torch.optim.lr_scheduler import LRScheduler

from engine.config.nearest import unknown
from engine.config.policies import SchedulePolicy
from engine.schedules.cycle import LRRangeTest, OneCycle
from engine.schedules.warmup import WarmupCosineLR, WarmupDecayLR, WarmupLR
from probe.errors import ConfigError

DEEPSPEED: Mapping[str, type[LRScheduler]] = {
    schedule.__name__: schedule
    for schedule in (WarmupLR, WarmupDecayLR, WarmupCosineLR, OneCycle, LRRangeTest)
}
TORCH: Mapping[str, type[LRScheduler]] = {
    name: member
    for name, member in vars(lr_scheduler).items()
    if isinstance(member, type)
    and issubclass(member, LRScheduler)
    and member is not LRScheduler
    and not name.startswith("_")
}
NEEDS_A_METRIC = "ReduceLROnPlateau"


def build_schedule(optimizer: Optimizer, policy: SchedulePolicy) -> LRScheduler:
    """The scheduler that the policy names; all that does not fit is said in one error."""
    known = {**TORCH, **DEEPSPEED}
    if policy.type == NEEDS_A_METRIC:
        raise ConfigError(
            "scheduler",
            [
                f"{NEEDS_A_METRIC} must be told a metric at each step, which the engine has not;"
                " build it in the script and step it there"
            ],
        )
    if policy.type not in known:
        raise ConfigError("scheduler", [unknown("type", policy.type, known)])
    schedule = known[policy.type]
    if faults := _misfits(schedule, policy):
        raise ConfigError("scheduler", faults)
    try:
        return schedule(optimizer=optimizer, **policy.params)
    except (TypeError, ValueError, KeyError) as error:
        raise ConfigError("scheduler", [f"{policy.type}: {error}"]) from error


def _misfits(schedule: type[LRScheduler], policy: SchedulePolicy) -> list[str]:
    parameters = dict(inspect.signature(schedule).parameters)
    del parameters["optimizer"]
    faults = [
        unknown(f"{policy.type} parameter", name, parameters)
        for name in policy.params
        if name not in parameters
    ]
    faults += [
        f'{policy.type} needs "{name}"'
        for name, parameter in parameters.items()
        if parameter.default is inspect.Parameter.empty and name not in policy.params
    ]
    return faults
