"""All that can be wrong with a configuration: each fault named, and all of them at once."""

import math

import pytest

from engine.config.load import load_config, read_config
from engine.config.policies import Config, OffloadPolicy, ZeroPolicy
from probe.errors import ConfigError
from probe.schema.vocabulary import Tier


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
