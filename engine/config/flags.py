"""What the command line changes in a configuration, and the sentence that says so.

A flag wins over the file. Lowering the stage also drops the offload that only the higher stage
has, so that one file serves for a comparison of stages.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from engine.config.key import Key, Kind
from engine.config.keys import KEYS
from engine.config.nearest import unknown
from engine.config.reading import Reading
from engine.config.sharding_keys import OFFLOAD_OPTIMIZER, OFFLOAD_PARAM, ZERO
from engine.config.values import AUTO, WrongValueError, parsed, written
from probe.errors import ConfigError
from probe.schema.vocabulary import Precision, Tier

STAGE = f"{ZERO}.stage"
RATE = "optimizer.params.lr"


@dataclass(frozen=True, kw_only=True)
class FlagOverrides:
    """Flags of `probe run`, and of any script that has them; None is not given."""

    stage: int | None = None
    precision: Precision | None = None
    train_batch: int | None = None
    micro_batch: int | None = None
    accumulation_steps: int | None = None
    learning_rate: float | None = None
    warmup_steps: int | None = None
    total_steps: int | None = None
    clip_norm: float | None = None
    loss_scale: float | None = None
    offload_optimizer: Tier | None = None
    offload_params: Tier | None = None
    disk_path: str | None = None
    spare_folder: str | None = None
    """Where a disk asked for on the command line is, if neither flag nor file names a folder."""
    checkpoint_every_block: int | None = None
    checkpoint_dir: str | None = None
    checkpoint_every_steps: int | None = None
    checkpoint_keep_last: int | None = None
    checkpoint_asynchronous: bool | None = None
    resume: str | None = None
    activations_to_host: bool | None = None

    @classmethod
    def from_mapping(cls, given: Mapping[str, Any]) -> "FlagOverrides":
        """From plain names and values, as they travel between processes; checked."""
        known = {item.name for item in fields(cls)}
        faults = [unknown("flag", name, known) for name in given if name not in known]
        values, wrong = _checked({name: given[name] for name in given if name in known})
        if faults or wrong:
            raise ConfigError("flags", [*faults, *wrong])
        return cls(**values)


OPTIONS = {
    "stage": ("--stage", STAGE),
    "train_batch": ("--train-batch", "train_batch_size"),
    "micro_batch": ("--micro-batch", "train_micro_batch_size_per_gpu"),
    "accumulation_steps": ("--accumulate", "gradient_accumulation_steps"),
    "clip_norm": ("--clip", "gradient_clipping"),
    "loss_scale": ("--loss-scale", "fp16.loss_scale"),
    "offload_optimizer": ("--offload optimizer to", f"{OFFLOAD_OPTIMIZER}.device"),
    "offload_params": ("--offload params to", f"{OFFLOAD_PARAM}.device"),
    "checkpoint_dir": ("--checkpoint-dir", "checkpoint.dir"),
    "checkpoint_every_steps": ("--checkpoint-every", "checkpoint.every_steps"),
    "checkpoint_keep_last": ("--keep-last", "checkpoint.keep_last"),
    "checkpoint_asynchronous": ("--checkpoint-async", "checkpoint.asynchronous"),
    "resume": ("--resume", "checkpoint.resume"),
    "checkpoint_every_block": ("--checkpoint-activations", "activation_checkpointing.every_block"),
    "activations_to_host": (
        "--checkpoint-activations-to",
        "activation_checkpointing.cpu_checkpointing",
    ),
}
"""The flags that set one key of the table: how they are typed, and that key."""

PARAMETERS = {
    "learning_rate": ("--lr", RATE),
    "warmup_steps": ("--warmup-steps", "scheduler.params.warmup_num_steps"),
    "total_steps": ("--total-steps", "scheduler.params.total_num_steps"),
}
"""The flags that set a parameter of the optimizer or the schedule, if there is one to set."""

SWITCHED: Mapping[Precision, Mapping[str, Any]] = {
    Precision.FP32: {},
    Precision.FP16: {"fp16.enabled": True},
    Precision.BF16: {"bf16.enabled": True},
    Precision.AMP_FP16: {"torch_autocast.enabled": True, "torch_autocast.dtype": "fp16"},
    Precision.AMP_BF16: {"torch_autocast.enabled": True, "torch_autocast.dtype": "bf16"},
}
SWITCHES = ("fp16.enabled", "bf16.enabled", "torch_autocast.enabled", "amp.enabled")


def apply_flags(reading: Reading, flags: FlagOverrides) -> None:
    """Set what the flags say, and say what that changed."""
    values, faults = _checked({item.name: getattr(flags, item.name) for item in fields(flags)})
    reading.faults += faults
    for name, (option, path) in OPTIONS.items():
        if name in values:
            _set(reading, f"{option} {_spelled(name, values[name])}", path, values[name])
    if "precision" in values:
        _set_precision(reading, values["precision"])
    if values.get("offload_optimizer") is Tier.DISK:
        _overlap_disk(reading)
    if "disk_path" in values:
        _set_disk_path(reading, values["disk_path"])
    elif "spare_folder" in values:
        _use_spare_folder(reading, values["spare_folder"])
    for name, (option, path) in PARAMETERS.items():
        if name in values:
            _set_parameter(reading, option, path, values[name])
    if "learning_rate" in values:
        _follow_in_schedule(reading, values["learning_rate"])
    if "stage" in values:
        _drop_offload_above(reading, values["stage"], values)


def _checked(given: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    values: dict[str, Any] = {}
    faults = []
    for name, raw in given.items():
        if raw is None:
            continue
        try:
            values[name] = parsed(_key(name), raw)
        except WrongValueError as error:
            faults.append(str(error))
    return values, faults


def _key(name: str) -> Key:
    """What the value of a flag may be: that of the key it sets, under the flag's name."""
    if name == "precision":
        return Key(
            path="--precision",
            kind=Kind.CHOICE,
            choices=tuple(Precision),
            members=Precision,
            lands="",
        )
    if name in ("disk_path", "spare_folder"):
        return Key(path="--offload-path", kind=Kind.TEXT, lands="")
    if name == "learning_rate":
        return Key(path="--lr", kind=Kind.NUMBER, least=0, lands="")
    if name in PARAMETERS:
        return Key(path=PARAMETERS[name][0], kind=Kind.COUNT, least=1, lands="")
    option, path = OPTIONS[name]
    key = KEYS[path]
    return Key(path=option, kind=key.kind, least=key.least, most=key.most, lands="")


def _spelled(name: str, value: Any) -> str:
    if name == "activations_to_host":
        return "cpu" if value else "device"
    return written(value)


def _set(reading: Reading, flag: str, path: str, value: Any) -> None:
    old = reading.values.get(path)
    reading.values[path] = value
    reading.flagged.add(path)
    _say_override(reading, flag, path, old, value)


def _say_override(reading: Reading, flag: str, path: str, old: Any, value: Any) -> None:
    if old is None:
        reading.overrides.append(f"{flag} sets {path}, which is not in the configuration")
    elif old == AUTO:
        reading.overrides.append(f'{flag} fills {path} "auto"')
    elif old != value:
        reading.overrides.append(f"{flag} overrides {path} {written(old)}")


def _set_precision(reading: Reading, precision: Precision) -> None:
    flag = f"--{precision.value.replace('_', '-')}"
    wanted = SWITCHED[precision]
    for path in SWITCHES:
        if path in reading.values and not wanted.get(path, False):
            _set(reading, flag, path, False)
    for path, value in wanted.items():
        _set(reading, flag, path, value)


def _set_disk_path(reading: Reading, folder: str) -> None:
    for block in (OFFLOAD_OPTIMIZER, OFFLOAD_PARAM):
        if reading.values.get(f"{block}.device") is Tier.DISK:
            _set(reading, f"--offload-path {written(folder)}", f"{block}.nvme_path", folder)


def _use_spare_folder(reading: Reading, folder: str) -> None:
    for block in (OFFLOAD_OPTIMIZER, OFFLOAD_PARAM):
        path = f"{block}.nvme_path"
        if reading.values.get(f"{block}.device") is Tier.DISK and path not in reading.values:
            _set(reading, "--offload-to disk", path, folder)


def _overlap_disk(reading: Reading) -> None:
    """A disk asked for on the command line works beside the update, if no file says otherwise."""
    for name in ("pipeline_read", "pipeline_write"):
        path = f"{OFFLOAD_OPTIMIZER}.{name}"
        if path not in reading.values:
            _set(reading, "--offload-to disk", path, True)


def _set_parameter(reading: Reading, option: str, path: str, value: float) -> None:
    block, _, name = path.rpartition(".")
    owner = block.removesuffix(".params")
    flag = f"{option} {written(value)}"
    if f"{owner}.type" not in reading.values:
        reading.notes.append(f"{flag} is not used: the configuration has no {owner}")
        return
    params = dict(reading.values.get(block, {}))
    old = params.get(name)
    if old is None and owner == "scheduler":
        reading.notes.append(f"{flag} is not used: {path} is not in the configuration")
        return
    params[name] = value
    reading.values[block] = params
    _say_override(reading, flag, path, old, value)


def _follow_in_schedule(reading: Reading, rate: float) -> None:
    """A warm-up climbs to a rate of its own, which would undo the flag."""
    if reading.values.get("scheduler.params", {}).get("warmup_max_lr") is not None:
        _set_parameter(reading, "--lr", "scheduler.params.warmup_max_lr", rate)


def _drop_offload_above(reading: Reading, stage: int, asked: Mapping[str, Any]) -> None:
    for name, needs in (("offload_params", 3), ("offload_optimizer", 1)):
        path = OPTIONS[name][1]
        old = reading.values.get(path, Tier.DEVICE)
        if stage < needs and name not in asked and old is not Tier.DEVICE:
            reading.values[path] = Tier.DEVICE
            reading.overrides.append(
                f"--stage {stage} drops {path} {written(old)}, which needs stage {needs} or above"
            )
