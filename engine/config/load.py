"""The door: whatever the user brought goes in, one frozen `Config` comes out, or one error.

    source -> blocks of DeepSpeed's names -> values by path -> flags -> "auto" -> rules -> Config

All that is wrong is collected on the way and raised together at the end.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from engine.config.accelerate import beside, merge_file, parse_accelerate
from engine.config.auto import resolve_auto
from engine.config.batch import batch_policy
from engine.config.deepspeed import read_blocks
from engine.config.facts import ModelFacts, ScriptFacts
from engine.config.flags import FlagOverrides, apply_flags
from engine.config.jsonc import JsonError, parse_json
from engine.config.optimizer_block import optimizer_policy
from engine.config.policies import (
    ActivationPolicy,
    CheckpointPolicy,
    Config,
    OffloadPolicy,
    ZeroPolicy,
)
from engine.config.precision_block import precision_policy
from engine.config.reading import Reading
from engine.config.rules import check_rules
from engine.config.scheduler_block import schedule_policy
from engine.config.values import written
from engine.config.write import to_deepspeed
from probe.errors import ConfigError

Source = Config | Mapping[str, Any] | str | os.PathLike[str]
YAML_SUFFIXES = (".yaml", ".yml")


@dataclass(frozen=True, kw_only=True)
class LoadedConfig:
    """A configuration, and what there is to tell about how it was read."""

    config: Config
    source: str
    notes: tuple[str, ...] = ()
    """What is understood in another way than written, or not needed here."""
    overrides: tuple[str, ...] = ()
    """What the command line changed."""


def load_config(
    source: Source,
    *,
    world_size: int,
    model_facts: ModelFacts | None = None,
    script_facts: ScriptFacts | None = None,
    flags: FlagOverrides | None = None,
) -> Config:
    """The `Config` alone; see `read_config`."""
    return read_config(
        source,
        world_size=world_size,
        model_facts=model_facts,
        script_facts=script_facts,
        flags=flags,
    ).config


def read_config(
    source: Source,
    *,
    world_size: int,
    model_facts: ModelFacts | None = None,
    script_facts: ScriptFacts | None = None,
    flags: FlagOverrides | None = None,
) -> LoadedConfig:
    """Read a DeepSpeed or Accelerate file, a dict or a `Config`, with flags and facts applied.

    Raises one `ConfigError` that lists every problem.
    """
    assert world_size >= 1
    script = script_facts or ScriptFacts()
    reading = Reading()
    label, blocks = _blocks(reading, source, world_size)
    if isinstance(source, Config):
        reading.loss_scale = source.precision.loss_scale
    read_blocks(reading, blocks)
    if script.own_optimizer:
        _yield_to_script(reading, "optimizer")
    if script.own_schedule:
        _yield_to_script(reading, "scheduler")
    if flags is not None:
        apply_flags(reading, flags)
    asked = frozenset(reading.values.get("scheduler.params", {}))
    resolve_auto(reading, model_facts or ModelFacts(), script)
    check_rules(reading)
    config = Config(
        batch=batch_policy(reading, world_size, script),
        precision=precision_policy(reading),
        zero=ZeroPolicy(**reading.landed("zero")),
        offload_optimizer=OffloadPolicy(**reading.landed("offload_optimizer")),
        offload_params=replace(Config().offload_params, **reading.landed("offload_params")),
        activations=ActivationPolicy(**reading.landed("activations")),
        checkpoint=CheckpointPolicy(**reading.landed("checkpoint")),
        optimizer=optimizer_policy(reading),
        schedule=schedule_policy(reading, asked),
        **reading.landed(""),
    )
    if reading.faults:
        raise ConfigError(label, reading.faults)
    return LoadedConfig(
        config=config,
        source=label,
        notes=tuple(reading.notes),
        overrides=tuple(reading.overrides),
    )


def _yield_to_script(reading: Reading, block: str) -> None:
    """What the script passes itself wins, and what the block says is no matter any more."""
    kind = reading.values.pop(f"{block}.type", None)
    reading.values.pop(f"{block}.params", None)
    if kind is not None:
        reading.notes.append(f"{block} {written(kind)} is not built: the script passes its own")


def _blocks(reading: Reading, source: Source, world_size: int) -> tuple[str, Mapping[Any, Any]]:
    if isinstance(source, Config):
        return "Config", to_deepspeed(source)
    if isinstance(source, Mapping):
        return "config", source
    path = Path(source)
    if path.suffix.lower() in YAML_SUFFIXES:
        return str(path), _accelerate_blocks(reading, path, world_size)
    return str(path), _json_blocks(reading, path)


def _text(reading: Reading, path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        reading.faults.append(f"{path} cannot be read: {error.strerror}")
    except ValueError:
        reading.faults.append(f"{path} cannot be read: it is no UTF-8 text")
    return None


def _json_blocks(reading: Reading, path: Path) -> dict[str, Any]:
    text = _text(reading, path)
    if text is None:
        return {}
    try:
        blocks, repeated = parse_json(text)
    except JsonError as error:
        reading.faults.append(f"{path.name}: {error}")
        return {}
    reading.faults += [f'"{name}" stands twice in one block of {path.name}' for name in repeated]
    if not isinstance(blocks, dict):
        reading.faults.append(f"{path.name} must hold a block of keys")
        return {}
    return blocks


def _accelerate_blocks(reading: Reading, path: Path, world_size: int) -> dict[str, Any]:
    text = _text(reading, path)
    if text is None:
        return {}
    read = parse_accelerate(text, world_size)
    blocks = read.blocks
    if read.config_file is not None:
        blocks = merge_file(read, _json_blocks(reading, beside(path, read.config_file)))
    reading.faults += read.faults
    reading.notes += read.notes
    return blocks
