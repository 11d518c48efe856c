""" "auto" resolved as the integrations of transformers and Accelerate do, or named as unresolved.

Facts fill what says "auto" and nothing else. The batch sizes are left to `batch.py`, which can
often derive them, and the precision switches decide between themselves.
"""

from collections.abc import Mapping
from typing import Any

from engine.config.facts import ModelFacts, ScriptFacts
from engine.config.keys import KEYS
from engine.config.reading import Reading
from engine.config.sharding_keys import ZERO
from engine.config.training_keys import BATCH_KEYS
from engine.config.values import AUTO, shown
from probe.schema.vocabulary import Precision

DERIVED_LATER = {key.path for key in BATCH_KEYS}
SWITCHES = {"fp16.enabled": Precision.FP16, "bf16.enabled": Precision.BF16}
DEFAULTED = {
    "gradient_clipping",
    "amp.enabled",
    "amp.opt_level",
    f"{ZERO}.stage3_gather_16bit_weights_on_model_save",
}
"""Where both integrations end at the default when their user says nothing."""

STAGE_3_ONLY = f"{ZERO}.stage3_"

BY_HIDDEN_SIZE = "pass a model whose config has a hidden_size"
BY_PRECISION = "start with --fp16, --bf16 or --fp32"
BY_OPTIMIZER = "pass an optimizer to initialize()"
BY_BATCH = "start with --micro-batch"
REMEDIES = {
    f"{ZERO}.reduce_bucket_size": BY_HIDDEN_SIZE,
    f"{ZERO}.stage3_prefetch_bucket_size": BY_HIDDEN_SIZE,
    f"{ZERO}.stage3_param_persistence_threshold": BY_HIDDEN_SIZE,
    f"{ZERO}.stage": "start with --stage",
    "fp16.enabled": BY_PRECISION,
    "bf16.enabled": BY_PRECISION,
    "optimizer.params.lr": f"start with --lr, or {BY_OPTIMIZER}",
    "optimizer.params.betas": BY_OPTIMIZER,
    "optimizer.params.eps": BY_OPTIMIZER,
    "optimizer.params.weight_decay": BY_OPTIMIZER,
    "scheduler.params.warmup_max_lr": "start with --lr",
    "scheduler.params.warmup_num_steps": "start with --warmup-steps",
    "scheduler.params.total_num_steps": "start with --total-steps",
    "train_batch_size": BY_BATCH,
    "train_micro_batch_size_per_gpu": BY_BATCH,
}


def unresolved(path: str) -> str:
    """The sentence for an "auto" that no fact fills."""
    remedy = f", or {REMEDIES[path]}" if path in REMEDIES else ""
    return f'{path} is "auto" and nothing resolves it: write a value{remedy}'


def resolve_auto(reading: Reading, model: ModelFacts, script: ScriptFacts) -> None:
    """Fill every "auto" that a fact or a rule resolves; list the others."""
    _resolve_switches(reading, script)
    facts = _facts(model, script)
    stage = reading.values.get(f"{ZERO}.stage", 0)
    for path, value in list(reading.values.items()):
        if path not in KEYS or value != AUTO or path in DERIVED_LATER:
            continue
        if facts.get(path) is not None:
            reading.values[path] = facts[path]
        elif path in DEFAULTED:
            reading.values[path] = KEYS[path].default
            reading.notes.append(f'{path} "auto" is read as {shown(KEYS[path].default)}')
        elif path.startswith(STAGE_3_ONLY) and stage != 3 and stage != AUTO:
            del reading.values[path]  # without bearing in this stage
        else:
            reading.faults.append(unresolved(path))
            del reading.values[path]
    _resolve_params(reading, "optimizer.params", _optimizer_facts(script))
    _resolve_params(reading, "scheduler.params", _schedule_facts(reading, script))


def _facts(model: ModelFacts, script: ScriptFacts) -> dict[str, Any]:
    facts: dict[str, Any] = {"gradient_clipping": script.clip_norm}
    if model.hidden_size is not None:
        square = model.hidden_size**2
        facts |= {
            f"{ZERO}.reduce_bucket_size": square,
            f"{ZERO}.stage3_prefetch_bucket_size": int(0.9 * square),
            f"{ZERO}.stage3_param_persistence_threshold": 10 * model.hidden_size,
        }
    return facts


def _resolve_switches(reading: Reading, script: ScriptFacts) -> None:
    """fp16 and bf16 exclude each other, so that one that is on, or known, settles both."""
    known = script.precision
    for path, precision in SWITCHES.items():
        if reading.on(path):
            known = precision
    for path, precision in SWITCHES.items():
        if reading.values.get(path) == AUTO and known is not None:
            reading.values[path] = known is precision


def _optimizer_facts(script: ScriptFacts) -> dict[str, Any]:
    return {
        "lr": script.learning_rate,
        "betas": script.betas,
        "eps": script.eps,
        "weight_decay": script.weight_decay,
    }


def _schedule_facts(reading: Reading, script: ScriptFacts) -> dict[str, Any]:
    rate = reading.values.get("optimizer.params", {}).get("lr", script.learning_rate)
    return {
        "warmup_min_lr": 0.0,
        "warmup_max_lr": rate,
        "warmup_num_steps": script.warmup_steps,
        "total_num_steps": script.total_steps,
    }


def _resolve_params(reading: Reading, block: str, facts: Mapping[str, Any]) -> None:
    params = reading.values.get(block)
    if params is None:
        return
    resolved = {}
    for name, value in params.items():
        if not isinstance(value, str) or value.lower() != AUTO:
            resolved[name] = value
        elif facts.get(name) is not None:
            resolved[name] = facts[name]
        else:
            reading.faults.append(unresolved(f"{block}.{name}"))
    reading.values[block] = resolved
