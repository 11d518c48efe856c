"""All that can be wrong with a configuration: each fault named, and all of them at once."""

import math

import pytest

from engine.config.facts import ScriptFacts
from engine.config.load import load_config, read_config
from engine.config.policies import (
    AtMinimum,
    Config,
    LossScalePolicy,
    OffloadPolicy,
    PrecisionPolicy,
    ScaleRule,
    ZeroPolicy,
)
from probe.errors import ConfigError
from probe.schema.vocabulary import Precision, Tier


def faults(blocks, **given) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as error:
        load_config(blocks, world_size=2, **given)
    return error.value.faults


def zero(**blocks):
    return {"zero_optimization": blocks}


def adamw(**params):
    return {"optimizer": {"type": "AdamW", "params": params}}


@pytest.mark.parametrize(
    ("blocks", "fault"),
    [
        ({"fp61": {}}, '"fp61" is not a known key; did you mean "fp16"?'),
        (
            zero(stge=2),
            '"zero_optimization.stge" is not a known key; did you mean "zero_optimization.stage"?',
        ),
        (
            {"reduce_bucket_size": 5},
            '"reduce_bucket_size" is not a known key;'
            ' did you mean "zero_optimization.reduce_bucket_size"?',
        ),
        (
            zero(offload_optimiser={"device": "cpu"}),
            '"zero_optimization.offload_optimiser" is not a known key;'
            ' did you mean "zero_optimization.offload_optimizer"?',
        ),
        ({"qqqqqqqqqq": 1}, '"qqqqqqqqqq" is not a known key'),
        ({"unheard_of": None}, '"unheard_of" is not a known key'),
        ({7: 1}, '"7" is not a known key'),
        (zero(stage=4), "zero_optimization.stage must be a whole number at least 0 and at most 3"),
        (zero(stage=math.nan), "zero_optimization.stage must be a whole number at least 0 and"),
        ({"zero_optimization": 2}, "zero_optimization must be a block of keys, not 2"),
        ({"optimizer": "Adam"}, 'optimizer must be a block of keys, not "Adam"'),
        (
            {"optimizer": {"type": "Adam", "params": 3}},
            "optimizer.params must be a block of keys, not 3",
        ),
        (
            {"fp16": {"loss_scale_window": 0}},
            "fp16.loss_scale_window must be a whole number at least 1, not 0",
        ),
        (
            {"fp16": {"initial_scale_power": 200}},
            "fp16.initial_scale_power must be a whole number at least 0 and at most 127, not 200",
        ),
        (
            {"fp16": {"min_loss_scale": True}},
            "fp16.min_loss_scale must be a number above 0, not true",
        ),
        ({"gradient_clipping": -1}, "gradient_clipping must be a number at least 0, not -1"),
        ({"train_batch_size": 0}, "train_batch_size must be a whole number at least 1, not 0"),
        (
            {"prescale_gradients": "maybe"},
            'prescale_gradients must be true or false, not "maybe"',
        ),
        (
            {"communication_data_type": "int8"},
            'communication_data_type must be fp32, fp16 or bf16, not "int8"',
        ),
        (
            zero(offload_param={"device": "gpu"}),
            'zero_optimization.offload_param.device must be none, cpu or nvme, not "gpu"',
        ),
        (
            zero(stage=3, prefetch_bucket_size=1, stage3_prefetch_bucket_size=2),
            "zero_optimization.stage3_prefetch_bucket_size is given twice, under two of its names",
        ),
    ],
)
def test_unknown_keys_and_wrong_values_are_named(blocks, fault) -> None:
    found = faults(blocks)
    assert len(found) == 1
    assert found[0].startswith(fault)


@pytest.mark.parametrize(
    ("blocks", "fault"),
    [
        (
            {"fp16": {"enabled": True}, "bf16": {"enabled": True}},
            "fp16.enabled true and bf16.enabled true exclude each other: choose one",
        ),
        (
            {"bfloat16": {"enabled": True}, "torch_autocast": {"enabled": True}},
            "bf16.enabled true and torch_autocast.enabled true exclude each other: choose one",
        ),
        (
            {"torch_autocast": {"enabled": True, "dtype": "float32"}},
            'torch_autocast.dtype must be "fp16" or "bf16", not "fp32"',
        ),
        (
            {"fp16": {"enabled": True, "initial_scale_power": 2, "min_loss_scale": 8}},
            "fp16.initial_scale_power 2 starts at 4, below fp16.min_loss_scale 8",
        ),
        (
            {"bf16": {"enabled": True}, "data_types": {"grad_accum_dtype": "fp16"}},
            'data_types.grad_accum_dtype "fp16" does not go with bf16 weights:'
            " gradients are summed in their own type or in fp32",
        ),
        (
            zero(stage=2, offload_param={"device": "cpu"}),
            'zero_optimization.offload_param.device "cpu" does not go with'
            " zero_optimization.stage 2: parameters are sharded from stage 3 on",
        ),
        (
            zero(offload_optimizer={"device": "cpu"}),
            'zero_optimization.offload_optimizer.device "cpu" does not go with'
            " zero_optimization.stage 0: optimizer states are sharded from stage 1 on",
        ),
        (
            zero(stage=3, offload_optimizer={"device": "nvme"}),
            'zero_optimization.offload_optimizer.device "nvme" needs'
            " zero_optimization.offload_optimizer.nvme_path, a folder; or give --offload-path",
        ),
        (
            zero(stage=2, offload_optimizer={"device": "cpu", "ratio": 0.5}),
            "zero_optimization.offload_optimizer.ratio 0.5 needs stage 3,"
            " but zero_optimization.stage is 2",
        ),
        (
            zero(offload_optimizer={"ratio": 1.5}),
            "zero_optimization.offload_optimizer.ratio must be a number"
            " at least 0 and at most 1, not 1.5",
        ),
        (
            {
                "train_batch_size": 64,
                "train_micro_batch_size_per_gpu": 5,
                "gradient_accumulation_steps": 4,
            },
            "train_batch_size 64 is not train_micro_batch_size_per_gpu 5"
            " × gradient_accumulation_steps 4 × world size 2 = 40",
        ),
        (
            {"train_batch_size": 10, "gradient_accumulation_steps": 4},
            "train_batch_size 10 is not a multiple of gradient_accumulation_steps 4"
            " × world size 2 = 8",
        ),
        (
            {"train_batch_size": 4, "train_micro_batch_size_per_gpu": 4},
            "train_batch_size 4 is not a multiple of train_micro_batch_size_per_gpu 4"
            " × world size 2 = 8",
        ),
    ],
)
def test_contradictions_are_named_with_both_values(blocks, fault) -> None:
    assert faults(blocks) == (fault,)


@pytest.mark.parametrize(
    ("blocks", "fault"),
    [
        (
            {"optimizer": {"type": "Lamb"}},
            'optimizer.type "Lamb" is not element-wise: it looks at whole tensors, of which a rank'
            " holds only a part; use Adam, AdamW, SGD, Adagrad or Lion",
        ),
        (
            {"optimizer": {"type": "OneBitAdam"}},
            'optimizer.type "OneBitAdam" compresses its collectives, which carry full values here;'
            " use Adam",
        ),
        (
            {"optimizer": {"type": "RMSprop"}},
            'optimizer.type "RMSprop" is not built by name; pass it to initialize(optimizer=...)',
        ),
        (
            {"optimizer": {"type": "AdamWW"}},
            'optimizer.type "AdamWW" is not known; did you mean "AdamW"?',
        ),
        ({"optimizer": {"params": {"lr": 1}}}, "optimizer.params is given without optimizer.type"),
        (
            adamw(weight_decay=0, learning_rate=0.1),
            'AdamW parameter "learning_rate" is not known; known: amsgrad, betas, eps, lr, maxim',
        ),
        (
            adamw(weight_decay=0, max_grad_norm=1.0),
            "optimizer.params.max_grad_norm 1.0 is not a matter of the optimizer:"
            " set gradient_clipping",
        ),
        (
            adamw(weight_decay=0, bias_correction=False),
            "optimizer.params.bias_correction false is not here: leave it",
        ),
        (
            adamw(weight_decay=0, lr=True),
            "optimizer.params.lr must be a number at least 0, not true",
        ),
        (
            adamw(weight_decay=0, betas=[0.9, 1.0]),
            "optimizer.params.betas must be a pair of numbers at least 0 and below 1,"
            " not [0.9, 1.0]",
        ),
        (
            {"scheduler": {"type": "WarmupLr"}},
            'scheduler.type "WarmupLr" is not known; did you mean "WarmupLR"?',
        ),
        (
            {"scheduler": {"type": "ReduceLROnPlateau"}},
            'scheduler.type "ReduceLROnPlateau" must be told a metric at each step',
        ),
        ({"scheduler": {"params": {"x": 1}}}, "scheduler.params is given without scheduler.type"),
        (
            {"scheduler": {"type": "WarmupDecayLR", "params": {}}},
            "scheduler.params.total_num_steps is needed by WarmupDecayLR",
        ),
        (
            {"scheduler": {"type": "WarmupLR", "params": {"warmup_steps": 3}}},
            'WarmupLR parameter "warmup_steps" is not known; did you mean "warmup_num_steps"?',
        ),
        (
            {"scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 0}}},
            "scheduler.params.warmup_num_steps must be a whole number at least 1, not 0",
        ),
        (
            {"scheduler": {"type": "WarmupLR", "params": {"warmup_type": "cubic"}}},
            'scheduler.params.warmup_type must be "log" or "linear", not "cubic"',
        ),
    ],
)
def test_faults_of_optimizer_and_schedule_are_named(blocks, fault) -> None:
    found = faults(blocks)
    assert len(found) == 1
    assert found[0].startswith(fault)


def test_keys_that_would_change_the_numbers_are_refused_by_name() -> None:
    found = faults(
        {
            "gradient_allreduce_op": "sum",
            "elasticity": {"enabled": True},
            "pipeline": {"stages": 2},
            **zero(zero_quantized_gradients="true"),
        }
    )
    assert found == (
        'gradient_allreduce_op "sum" is not here: gradients are averaged;'
        " multiply the loss by the world size for a sum",
        'elasticity {"enabled": true} is not here: the world size is fixed for a run;'
        " set the batch sizes directly",
        'pipeline {"stages": 2} is not here: ranks are data-parallel only; leave it out',
        'zero_optimization.zero_quantized_gradients "true" is not here:'
        " collectives carry full values; leave it out or stay with DeepSpeed",
    )


def test_keys_that_change_no_number_are_notes() -> None:
    loaded = read_config(
        {
            "train_micro_batch_size_per_gpu": 1,
            "wall_clock_breakdown": True,
            "tensorboard": {"enabled": True, "job_name": "x"},
            "gradient_predivide_factor": 2,
            "prescale_gradients": True,
            **zero(contiguous_gradients=False),
        },
        world_size=1,
    )
    assert loaded.notes == (
        "wall_clock_breakdown true is not here:"
        " the run directory records this in every run; probe shows it",
        'tensorboard {"enabled": true, "job_name": "x"} is not here:'
        " the curves are in the run directory",
        "zero_optimization.contiguous_gradients false is not here:"
        " it changes speed or memory only; the engine lays out its buffers itself",
        "gradient_predivide_factor 2 has no part in it where prescale_gradients is true:"
        " all is divided before the reduction",
    )


def test_keys_at_the_value_that_holds_here_anyhow_are_quiet() -> None:
    loaded = read_config(
        {
            "train_micro_batch_size_per_gpu": 1,
            "wall_clock_breakdown": "false",
            "tensorboard": {"enabled": False},
            "gradient_allreduce_op": "mean",
            "zero_allow_untested_optimizer": True,
            "data_types": {"keep_in_fp32_modules": "auto", "grad_accum_dtype": None},
            "elasticity": None,
            **zero(contiguous_gradients=True, reduce_scatter=1, zero_quantized_weights=False),
        },
        world_size=1,
    )
    assert loaded.notes == ()


def test_all_faults_come_in_one_error() -> None:
    found = faults(
        {
            "train_batch_size": 3,
            "gradient_accumulation_steps": 2,
            "fp16": {"enabled": True, "hysteresis": 0},
            "bf16": {"enabled": True},
            "typo": 1,
            "optimizer": {"type": "Lamb"},
            "scheduler": {"type": "WarmupLR", "params": {"warmup_max_lr": "auto"}},
            **zero(stage=1, offload_param={"device": "cpu"}, zenflow={"topk_ratio": 0.1}),
        }
    )
    for part in (
        "train_batch_size 3",
        "fp16.hysteresis",
        "exclude each other",
        '"typo"',
        "Lamb",
        'warmup_max_lr is "auto"',
        "offload_param",
        "zenflow",
    ):
        assert sum(part in fault for fault in found) == 1
    assert len(found) == 8


def test_a_config_made_by_hand_is_checked_too() -> None:
    bad = Config(
        zero=ZeroPolicy(stage=7), offload_params=OffloadPolicy(tier=Tier.HOST), clip_norm=-1
    )
    found = faults(bad)
    assert [fault.split(" ")[0] for fault in found] == [
        "gradient_clipping",
        "zero_optimization.stage",
        "zero_optimization.offload_param.device",
    ]


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
        {"fp16": {"enabled": True, "at_minimum": "clamp"}, **zero(stage=3)}, world_size=1
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
        {"train_batch_size": 1, **zero(stage=3, cpu_offload=True, cpu_offload_param=False)},
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
