"""The schedule that a configuration asks for: which names there are, and what they take.

The parameters of torch's own schedulers are checked when the scheduler is built; here there is no
torch to ask.
"""

from collections.abc import Mapping
from typing import Any

from engine.config.key import Key, Kind
from engine.config.nearest import unknown
from engine.config.policies import SchedulePolicy
from engine.config.reading import Reading
from engine.config.values import WrongValueError, parsed

BLOCK = "scheduler.params"


def _param(name: str, kind: Kind, **bounds: Any) -> Key:
    return Key(path=f"{BLOCK}.{name}", kind=kind, lands=f"(schedule.params.{name})", **bounds)


STEPS = _param("warmup_num_steps", Kind.COUNT, least=1)
TOTAL = _param("total_num_steps", Kind.COUNT, least=1)
SHAPE = _param("warmup_type", Kind.CHOICE, choices=("log", "linear"))
RESUMED = _param("last_batch_iteration", Kind.COUNT, least=-1)
WARMUP = (
    _param("warmup_min_lr", Kind.NUMBERS, least=0),
    _param("warmup_max_lr", Kind.NUMBERS, least=0),
    STEPS,
    SHAPE,
    RESUMED,
)

SCHEDULES: Mapping[str, tuple[Key, ...]] = {
    "WarmupLR": WARMUP,
    "WarmupDecayLR": (TOTAL, *WARMUP),
    "WarmupCosineLR": (
        TOTAL,
        _param("warmup_min_ratio", Kind.NUMBER, least=0),
        STEPS,
        _param("cos_min_ratio", Kind.NUMBER, least=0),
        SHAPE,
        RESUMED,
    ),
    "OneCycle": (
        _param("cycle_min_lr", Kind.NUMBERS, least=0),
        _param("cycle_max_lr", Kind.NUMBERS, least=0),
        _param("decay_lr_rate", Kind.NUMBER, least=0),
        _param("cycle_first_step_size", Kind.NUMBER, above=0),
        _param("cycle_second_step_size", Kind.NUMBER, least=0),
        _param("cycle_first_stair_count", Kind.COUNT, least=0),
        _param("cycle_second_stair_count", Kind.COUNT, least=0),
        _param("decay_step_size", Kind.NUMBER, least=0),
        _param("cycle_momentum", Kind.BOOL),
        _param("cycle_min_mom", Kind.NUMBERS, least=0),
        _param("cycle_max_mom", Kind.NUMBERS, least=0),
        _param("decay_mom_rate", Kind.NUMBER, least=0),
        RESUMED,
    ),
    "LRRangeTest": (
        _param("lr_range_test_min_lr", Kind.NUMBERS, least=0),
        _param("lr_range_test_step_size", Kind.COUNT, least=1),
        _param("lr_range_test_step_rate", Kind.NUMBER),
        _param("lr_range_test_staircase", Kind.BOOL),
        RESUMED,
    ),
}
REQUIRED: Mapping[str, tuple[str, ...]] = {
    "WarmupDecayLR": ("total_num_steps",),
    "WarmupCosineLR": ("total_num_steps",),
    "OneCycle": ("cycle_min_lr", "cycle_max_lr"),
}
TORCH_SCHEDULES = (
    "StepLR",
    "MultiStepLR",
    "ConstantLR",
    "LinearLR",
    "ExponentialLR",
    "PolynomialLR",
    "CosineAnnealingLR",
    "CosineAnnealingWarmRestarts",
    "CyclicLR",
    "OneCycleLR",
    "LambdaLR",
    "MultiplicativeLR",
    "SequentialLR",
    "ChainedScheduler",
)
METRIC_BOUND = "ReduceLROnPlateau"


def schedule_policy(reading: Reading, asked: frozenset[str]) -> SchedulePolicy | None:
    """The policy, if the configuration asks for a schedule.

    `asked` are the parameters it named; one of them that is gone has been named as unresolved.
    """
    name = reading.values.get("scheduler.type")
    params = reading.values.get(BLOCK, {})
    if name is None:
        if params:
            reading.faults.append(f"{BLOCK} is given without scheduler.type")
        return None
    if name == METRIC_BOUND:
        reading.faults.append(
            f'scheduler.type "{name}" must be told a metric at each step, which the engine has not:'
            " build it in the script and step it there"
        )
        return None
    if name in TORCH_SCHEDULES:
        return SchedulePolicy(type=name, params=params)
    if name not in SCHEDULES:
        reading.faults.append(unknown("scheduler.type", name, (*SCHEDULES, *TORCH_SCHEDULES)))
        return None
    return SchedulePolicy(type=name, params=_checked(reading, name, params, asked))


def _checked(
    reading: Reading, name: str, params: Mapping[str, Any], asked: frozenset[str]
) -> dict[str, Any]:
    keys = {key.path.rpartition(".")[2]: key for key in SCHEDULES[name]}
    checked = {}
    for param, raw in params.items():
        if raw is None and param in keys:
            continue
        if param not in keys:
            reading.faults.append(unknown(f"{name} parameter", param, keys))
            continue
        try:
            checked[param] = parsed(keys[param], raw)
        except WrongValueError as error:
            reading.faults.append(str(error))
    for param in REQUIRED.get(name, ()):
        if param not in params and param not in asked:
            reading.faults.append(f"{BLOCK}.{param} is needed by {name}")
    return checked
