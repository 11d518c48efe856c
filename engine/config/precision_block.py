"""Which of fp16, bf16, torch_autocast and amp is on, and the loss scale that goes with it."""

from dataclasses import replace

from engine.config.keys import KEYS
from engine.config.policies import LossScalePolicy, PrecisionPolicy, ScaleRule
from engine.config.reading import Reading
from probe.schema.vocabulary import Precision

SWITCHES = ("fp16", "bf16", "torch_autocast", "amp")
GRAD_SCALER = LossScalePolicy(rule=ScaleRule.GRAD_SCALER, window_steps=2000, hysteresis=1)
"""torch.amp.GradScaler's defaults, which are apex's too."""

AMP_LEVELS = {
    "O0": (Precision.FP32, LossScalePolicy(), "fp32 throughout"),
    "O1": (Precision.AMP_FP16, GRAD_SCALER, "autocast in fp16 over fp32 weights"),
    "O2": (
        Precision.FP16,
        GRAD_SCALER,
        "fp16 weights over fp32 master weights; apex keeps BatchNorm in fp32, this casts it too",
    ),
    "O3": (
        Precision.FP16,
        LossScalePolicy(static_scale=1.0),
        "fp16 weights and a static scale of 1; master weights stay fp32 all the same",
    ),
}
WEIGHTS = {Precision.FP16: "fp16", Precision.BF16: "bf16"}


def precision_policy(reading: Reading) -> PrecisionPolicy:
    """The policy; two switches at once are a fault that names both."""
    on = [switch for switch in SWITCHES if reading.on(f"{switch}.enabled")]
    if len(on) > 1:
        both = " and ".join(f"{switch}.enabled true" for switch in on)
        reading.faults.append(f"{both} exclude each other: choose one")
    precision, scale = _mode(reading, on[0] if on else None)
    scale = reading.loss_scale or replace(scale, **reading.landed("precision.loss_scale"))
    if precision in (Precision.FP16, Precision.AMP_FP16):
        _check_scale(reading, scale)
    return PrecisionPolicy(
        precision=precision,
        loss_scale=scale,
        accumulate_in_fp32=_accumulate_in_fp32(reading, precision),
        **reading.landed("precision"),
    )


def _mode(reading: Reading, switch: str | None) -> tuple[Precision, LossScalePolicy]:
    if switch == "fp16":
        return Precision.FP16, LossScalePolicy()
    if switch == "bf16":
        return Precision.BF16, LossScalePolicy()
    if switch == "torch_autocast":
        return _autocast(reading)
    if switch == "amp":
        return _amp(reading)
    return Precision.FP32, LossScalePolicy()


def _autocast(reading: Reading) -> tuple[Precision, LossScalePolicy]:
    dtype = reading.values.get("torch_autocast.dtype", "bf16")
    if dtype == "fp32":
        reading.faults.append('torch_autocast.dtype must be "fp16" or "bf16", not "fp32"')
    if dtype == "fp16":
        return Precision.AMP_FP16, GRAD_SCALER
    return Precision.AMP_BF16, LossScalePolicy()


def _amp(reading: Reading) -> tuple[Precision, LossScalePolicy]:
    level = reading.values.get("amp.opt_level", KEYS["amp.opt_level"].default)
    precision, scale, words = AMP_LEVELS[level]
    reading.notes.append(f'amp.opt_level "{level}" is read as {words}')
    chosen = reading.values.get("amp.loss_scale")
    if chosen == "dynamic" and level == "O3":
        scale = GRAD_SCALER
    elif isinstance(chosen, float):
        scale = replace(scale, static_scale=chosen)
    return precision, scale


def _check_scale(reading: Reading, scale: LossScalePolicy) -> None:
    start = 2.0**scale.initial_scale_power
    if scale.static_scale == 0 and start < scale.minimum_scale:
        reading.faults.append(
            f"fp16.initial_scale_power {scale.initial_scale_power} starts at {start:g}, below"
            f" fp16.min_loss_scale {scale.minimum_scale:g}"
        )


def _accumulate_in_fp32(reading: Reading, precision: Precision) -> bool:
    dtype = reading.values.get("data_types.grad_accum_dtype")
    weights = WEIGHTS.get(precision, "fp32")
    if dtype not in (None, "fp32", weights):
        reading.faults.append(
            f'data_types.grad_accum_dtype "{dtype}" does not go with {weights} weights:'
            " gradients are summed in their own type or in fp32"
        )
    return bool(dtype == "fp32")
