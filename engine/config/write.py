"""A `Config` written back as the blocks of DeepSpeed's names that would be read as it."""

from typing import Any

from engine.config.key import Kind
from engine.config.keys import KEYS
from engine.config.paths import put
from engine.config.policies import Config, ScaleRule
from engine.config.values import TIER_NAMES
from probe.schema.vocabulary import Precision


def to_deepspeed(config: Config) -> dict[str, Any]:
    """Plain blocks, fit for JSON; nothing that is None is written."""
    blocks: dict[str, Any] = {}
    for path, key in KEYS.items():
        if key.direct:
            value: Any = config
            for name in key.lands.split("."):
                value = getattr(value, name)
            if value is not None:
                put(blocks, path, TIER_NAMES[value] if key.kind is Kind.TIER else _plain(value))
    for path, value in _switches(config):
        put(blocks, path, value)
    if config.precision.accumulate_in_fp32:
        put(blocks, "data_types.grad_accum_dtype", "fp32")
    if config.optimizer is not None:
        blocks["optimizer"] = {
            "type": config.optimizer.type,
            "params": {name: _plain(value) for name, value in config.optimizer.params.items()},
        }
        if config.optimizer.type == "Adam":
            blocks["optimizer"]["params"]["adam_w_mode"] = False
    if config.schedule is not None:
        blocks["scheduler"] = {
            "type": config.schedule.type,
            "params": {name: _plain(value) for name, value in config.schedule.params.items()},
        }
    return blocks


def _switches(config: Config) -> list[tuple[str, Any]]:
    precision = config.precision.precision
    if precision in (Precision.AMP_FP16, Precision.AMP_BF16):
        dtype = precision.value.removeprefix("amp_")
        return [("torch_autocast.enabled", True), ("torch_autocast.dtype", dtype)]
    if precision is Precision.BF16:
        return [("bf16.enabled", True)]
    if precision is Precision.FP16:
        if config.precision.loss_scale.rule is ScaleRule.GRAD_SCALER:
            return [("amp.enabled", True), ("amp.opt_level", "O2")]
        return [("fp16.enabled", True)]
    return []


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return list(value)
    return str(value) if isinstance(value, str) else value
