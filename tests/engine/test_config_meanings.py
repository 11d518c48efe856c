"""What each way of asking for something in a configuration means, old names included."""

import pytest

from engine.config.facts import ScriptFacts
from engine.config.load import load_config, read_config
from engine.config.policies import AtMinimum, Config, LossScalePolicy, PrecisionPolicy, ScaleRule
from probe.schema.vocabulary import Precision, Tier


@pytest.mark.parametrize(
    ("blocks", "precision", "rule", "static", "window", "hysteresis"),
    [
        ({}, Precision.FP32, ScaleRule.ZERO, 0, 1000, 2),
        ({"fp16": {"enabled": True}}, Precision.FP16, ScaleRule.ZERO, 0, 1000, 2),
        ({"bfloat16": {"enabled": "true"}}, Precision.BF16, ScaleRule.ZERO, 0, 1000, 2),
        ({"torch_autocast": {"enabled": True}}, Precision.AMP_BF16, ScaleRule.ZERO, 0, 1000, 2),
        (
            {"torch_autocast": {"enabled": True, "dtype": "float16"}},
            Precision.AMP_FP16,
            ScaleRule.GRAD_SCALER,
            0,
            2000,
            1,
        ),
        (
            {"torch_autocast": {"enabled": 1, "dtype": "half"}, "fp16": {"loss_scale_window": 5}},
            Precision.AMP_FP16,
            ScaleRule.GRAD_SCALER,
            0,
            5,
            1,
        ),
        ({"amp": {"enabled": True, "opt_level": "O0"}}, Precision.FP32, ScaleRule.ZERO, 0, 1000, 2),
        ({"amp": {"enabled": True}}, Precision.AMP_FP16, ScaleRule.GRAD_SCALER, 0, 2000, 1),
        (
            {"amp": {"enabled": True, "opt_level": "o2", "loss_scale": 128}},
            Precision.FP16,
            ScaleRule.GRAD_SCALER,
            128,
            2000,
            1,
        ),
        (
            {"amp": {"enabled": True, "opt_level": "O3"}},
            Precision.FP16,
            ScaleRule.ZERO,
            1,
            1000,
            2,
        ),
        (
            {"amp": {"enabled": True, "opt_level": "O3", "loss_scale": "dynamic"}},
            Precision.FP16,
            ScaleRule.GRAD_SCALER,
            0,
            2000,
            1,
        ),
    ],
)
def test_each_way_to_ask_for_a_precision(
    blocks, precision, rule, static, window, hysteresis
) -> None:
    policy = load_config(blocks, world_size=1).precision
    scale = policy.loss_scale
    assert policy.precision is precision
    assert (scale.rule, scale.static_scale) == (rule, static)
    assert (scale.window_steps, scale.hysteresis) == (window, hysteresis)


def test_a_static_scale_has_no_minimum_to_start_above() -> None:
    scale = {"enabled": True, "loss_scale": 2, "initial_scale_power": 2, "min_loss_scale": 8}
    assert load_config({"fp16": scale}, world_size=1).precision.loss_scale.static_scale == 2


def test_the_scale_rule_of_a_config_made_by_hand_is_kept() -> None:
    policy = PrecisionPolicy(precision=Precision.AMP_FP16, loss_scale=LossScalePolicy())
    assert load_config(Config(precision=policy), world_size=1).precision == policy


def test_amp_levels_are_explained() -> None:
    loaded = read_config({"amp": {"enabled": True, "opt_level": "O2"}}, world_size=1)
    assert loaded.notes[-1] == (
        'amp.opt_level "O2" is read as fp16 weights over fp32 master weights;'
        " apex keeps BatchNorm in fp32, this casts it too"
    )


def test_enums_are_members_and_not_words() -> None:
    config = load_config(
        {"fp16": {"enabled": True, "at_minimum": "clamp"}, "zero_optimization": {"stage": 3}},
        world_size=1,
    )
    assert config.precision.loss_scale.at_minimum is AtMinimum.CLAMP
    assert config.offload_params.tier is Tier.DEVICE


@pytest.mark.parametrize(
    ("params", "kind", "decay"),
    [
        ({}, "AdamW", 0.0),
        ({"torch_adam": True}, "AdamW", 0.01),
        ({"weight_decay": 0.3}, "AdamW", 0.3),
        ({"adam_w_mode": False}, "Adam", None),
        ({"adam_w_mode": "false", "weight_decay": 0.3}, "Adam", 0.3),
    ],
)
def test_adam_is_what_deepspeed_makes_of_it(params, kind, decay) -> None:
    optimizer = load_config(
        {"optimizer": {"type": "adam", "params": params}}, world_size=1
    ).optimizer
    assert optimizer is not None
    assert (optimizer.type, optimizer.params.get("weight_decay")) == (kind, decay)
    assert "torch_adam" not in optimizer.params
    assert "adam_w_mode" not in optimizer.params


def test_an_optimizer_of_the_script_hides_faults_of_the_block_it_replaces() -> None:
    config = load_config(
        {"optimizer": {"type": "Lamb", "params": {"lr": "auto"}}},
        world_size=1,
        script_facts=ScriptFacts(own_optimizer=True),
    )
    assert config.optimizer is None


def test_the_old_switches_for_offload_are_devices() -> None:
    loaded = read_config(
        {
            "train_batch_size": 1,
            "zero_optimization": {"stage": 3, "cpu_offload": True, "cpu_offload_param": False},
        },
        world_size=1,
    )
    assert loaded.config.offload_optimizer.tier is Tier.HOST
    assert loaded.config.offload_params.tier is Tier.DEVICE
    assert loaded.notes == (
        "zero_optimization.cpu_offload true is read as"
        ' zero_optimization.offload_optimizer.device "cpu"',
    )


@pytest.mark.parametrize(("raw", "stage"), [(True, 1), (False, 0)])
def test_the_old_switch_for_zero_is_a_stage(raw: bool, stage: int) -> None:
    loaded = read_config({"zero_optimization": raw}, world_size=1)
    assert loaded.config.zero.stage == stage
    assert f"is read as stage {stage}" in loaded.notes[0]
