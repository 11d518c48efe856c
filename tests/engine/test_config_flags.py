"""The command line, "auto" and the batch arithmetic: what fills, what wins, and what is said."""

import pytest

from engine.config.facts import ModelFacts, ScriptFacts
from engine.config.flags import FlagOverrides
from engine.config.load import load_config, read_config
from engine.config.policies import BatchPolicy, Config, PrecisionPolicy
from probe.errors import ConfigError
from probe.schema.vocabulary import Precision, Tier

TRAIN = "train_batch_size"
MICRO = "train_micro_batch_size_per_gpu"
ACCUMULATION = "gradient_accumulation_steps"


def overridden(blocks, *, world_size: int = 2, **flags):
    return read_config(blocks, world_size=world_size, flags=FlagOverrides(**flags))


@pytest.mark.parametrize(
    ("given", "batch"),
    [
        ({TRAIN: 24, MICRO: 3, ACCUMULATION: 4}, (24, 3, 4)),
        ({TRAIN: 24, MICRO: 3}, (24, 3, 4)),
        ({TRAIN: 24, ACCUMULATION: 4}, (24, 3, 4)),
        ({MICRO: 3, ACCUMULATION: 4}, (24, 3, 4)),
        ({TRAIN: 24}, (24, 12, 1)),
        ({MICRO: 3}, (6, 3, 1)),
        ({ACCUMULATION: 4}, (None, None, 4)),
        ({}, (None, None, 1)),
        ({TRAIN: "auto", MICRO: 3, ACCUMULATION: 4}, (24, 3, 4)),
        ({TRAIN: 24, MICRO: "auto", ACCUMULATION: 4}, (24, 3, 4)),
        ({TRAIN: 24, MICRO: 3, ACCUMULATION: "auto"}, (24, 3, 4)),
        ({TRAIN: "auto", MICRO: 3, ACCUMULATION: "auto"}, (6, 3, 1)),
    ],
)
def test_what_is_missing_follows_from_the_rest(given, batch) -> None:
    train, micro, accumulation = batch
    assert load_config(given, world_size=2).batch == BatchPolicy(
        train=train, micro=micro, accumulation_steps=accumulation
    )


def test_the_scripts_data_loader_fills_what_nothing_else_says() -> None:
    script = ScriptFacts(micro_batch=5, accumulation_steps=3)
    auto = {TRAIN: "auto", MICRO: "auto", ACCUMULATION: "auto"}
    assert load_config(auto, world_size=2, script_facts=script).batch == BatchPolicy(
        train=30, micro=5, accumulation_steps=3
    )
    from_loader = load_config({}, world_size=2, script_facts=script).batch
    assert (from_loader.micro, from_loader.accumulation_steps) == (5, 1)
    assert load_config({MICRO: 2}, world_size=2, script_facts=script).batch.micro == 2


@pytest.mark.parametrize(
    ("given", "flags", "batch", "said"),
    [
        (
            {TRAIN: 64, MICRO: 8, ACCUMULATION: 4},
            {"micro_batch": 4},
            (64, 4, 8),
            (
                "--micro-batch 4 overrides train_micro_batch_size_per_gpu 8",
                "gradient_accumulation_steps 4 becomes 8 to fit",
            ),
        ),
        (
            {TRAIN: 64, MICRO: 8, ACCUMULATION: 4},
            {"accumulation_steps": 2},
            (64, 16, 2),
            (
                "--accumulate 2 overrides gradient_accumulation_steps 4",
                "train_micro_batch_size_per_gpu 8 becomes 16 to fit",
            ),
        ),
        (
            {TRAIN: 64, MICRO: 8, ACCUMULATION: 4},
            {"micro_batch": 1, "accumulation_steps": 1},
            (2, 1, 1),
            (
                "--micro-batch 1 overrides train_micro_batch_size_per_gpu 8",
                "--accumulate 1 overrides gradient_accumulation_steps 4",
                "train_batch_size 64 becomes 2 to fit",
            ),
        ),
        (
            {TRAIN: 64, MICRO: 8, ACCUMULATION: 4},
            {"train_batch": 32},
            (32, 8, 2),
            (
                "--train-batch 32 overrides train_batch_size 64",
                "gradient_accumulation_steps 4 becomes 2 to fit",
            ),
        ),
        (
            {MICRO: 8, ACCUMULATION: 4},
            {"micro_batch": 2},
            (16, 2, 4),
            ("--micro-batch 2 overrides train_micro_batch_size_per_gpu 8",),
        ),
        (
            {},
            {"micro_batch": 2},
            (4, 2, 1),
            (
                "--micro-batch 2 sets train_micro_batch_size_per_gpu,"
                " which is not in the configuration",
            ),
        ),
    ],
)
def test_a_batch_flag_keeps_the_global_batch_where_it_can(given, flags, batch, said) -> None:
    loaded = overridden(given, **flags)
    got = loaded.config.batch
    assert (got.train, got.micro, got.accumulation_steps) == batch
    assert loaded.overrides == said


def test_a_flag_that_cannot_keep_the_global_batch_is_a_fault() -> None:
    with pytest.raises(ConfigError, match="train_batch_size 64 is not a multiple of"):
        overridden({TRAIN: 64, MICRO: 8}, micro_batch=5)


def test_stage_and_precision_flags_win_and_say_so() -> None:
    loaded = overridden(
        {MICRO: 1, "fp16": {"enabled": True}, "zero_optimization": {"stage": 2}},
        stage=3,
        precision=Precision.BF16,
    )
    assert loaded.config.zero.stage == 3
    assert loaded.config.precision.precision is Precision.BF16
    assert loaded.overrides == (
        "--stage 3 overrides zero_optimization.stage 2",
        "--bf16 overrides fp16.enabled true",
        "--bf16 sets bf16.enabled, which is not in the configuration",
    )


@pytest.mark.parametrize("precision", Precision)
@pytest.mark.parametrize(
    "blocks",
    [
        {},
        {"fp16": {"enabled": True}},
        {"bf16": {"enabled": "auto"}, "fp16": {"enabled": "auto"}},
        {"torch_autocast": {"enabled": True, "dtype": "fp16"}},
        {"amp": {"enabled": True, "opt_level": "O2"}},
    ],
)
def test_every_precision_can_be_chosen_over_every_other(precision: Precision, blocks) -> None:
    assert overridden(blocks, precision=precision).config.precision.precision is precision


def test_a_flag_that_says_what_the_file_says_is_silent() -> None:
    blocks = {MICRO: 1, "zero_optimization": {"stage": 2}, "bf16": {"enabled": True}}
    assert overridden(blocks, stage=2, precision=Precision.BF16, micro_batch=1).overrides == ()


@pytest.mark.parametrize(
    ("stage", "dropped"),
    [
        (3, ()),
        (
            2,
            (
                '--stage 2 drops zero_optimization.offload_param.device "cpu",'
                " which needs stage 3 or above",
            ),
        ),
        (
            0,
            (
                '--stage 0 drops zero_optimization.offload_param.device "cpu",'
                " which needs stage 3 or above",
                '--stage 0 drops zero_optimization.offload_optimizer.device "cpu",'
                " which needs stage 1 or above",
            ),
        ),
    ],
)
def test_one_file_serves_for_a_comparison_of_stages(stage: int, dropped) -> None:
    offload = {"device": "cpu"}
    blocks = {
        "zero_optimization": {"stage": 3, "offload_param": offload, "offload_optimizer": offload}
    }
    loaded = overridden(blocks, stage=stage)
    assert loaded.overrides[stage != 3 :] == dropped
    assert loaded.config.zero.stage == stage
    assert (loaded.config.offload_params.tier is Tier.HOST) == (stage == 3)
    assert (loaded.config.offload_optimizer.tier is Tier.HOST) == (stage > 0)


def test_offload_that_is_asked_for_is_not_dropped_but_a_fault() -> None:
    with pytest.raises(ConfigError, match="parameters are sharded from stage 3 on"):
        overridden({}, stage=1, offload_params=Tier.HOST)


def test_offload_to_disk_takes_the_folder_from_its_flag() -> None:
    config = overridden(
        {}, stage=3, offload_optimizer=Tier.DISK, offload_params=Tier.HOST, disk_path="/scratch"
    ).config
    assert (config.offload_optimizer.tier, config.offload_optimizer.disk_path) == (
        Tier.DISK,
        "/scratch",
    )
    assert config.offload_params.disk_path is None


def test_the_learning_rate_flag_reaches_the_top_of_a_warmup_too() -> None:
    blocks = {
        "optimizer": {"type": "AdamW", "params": {"lr": 1e-3, "weight_decay": 0}},
        "scheduler": {"type": "WarmupLR", "params": {"warmup_max_lr": 1e-3}},
    }
    loaded = overridden(blocks, learning_rate=1e-4, total_steps=7)
    assert loaded.config.optimizer is not None
    assert loaded.config.schedule is not None
    assert loaded.config.optimizer.params["lr"] == 1e-4
    assert loaded.config.schedule.params["warmup_max_lr"] == 1e-4
    assert loaded.overrides == (
        "--lr 0.0001 overrides optimizer.params.lr 0.001",
        "--lr 0.0001 overrides scheduler.params.warmup_max_lr 0.001",
    )
    assert (
        "--total-steps 7 is not used: scheduler.params.total_num_steps is not in the configuration"
    ) in loaded.notes


def test_a_flag_with_nothing_to_change_is_noted() -> None:
    loaded = overridden({MICRO: 1}, learning_rate=1e-4)
    assert loaded.notes == ("--lr 0.0001 is not used: the configuration has no optimizer",)


@pytest.mark.parametrize(
    ("flag", "field"),
    [
        ({"clip_norm": 0.5}, "clip_norm"),
        ({"checkpoint_every_block": 2}, "activations.every_block"),
        ({"activations_to_host": True}, "activations.offload_to_host"),
        ({"loss_scale": 64.0}, "precision.loss_scale.static_scale"),
    ],
)
def test_the_other_flags_land(flag, field) -> None:
    value = overridden({"fp16": {"enabled": True}}, **flag).config
    for name in field.split("."):
        value = getattr(value, name)
    assert value == next(iter(flag.values()))


def test_flags_change_a_config_as_they_change_a_file() -> None:
    config = Config(
        batch=BatchPolicy(train=8, micro=4), precision=PrecisionPolicy(precision=Precision.FP16)
    )
    loaded = read_config(
        config, world_size=2, flags=FlagOverrides(stage=1, precision=Precision.FP32)
    )
    assert loaded.config.zero.stage == 1
    assert loaded.config.precision.precision is Precision.FP32
    assert loaded.config.batch == config.batch


def test_flags_travel_as_plain_names_and_values() -> None:
    assert FlagOverrides.from_mapping(
        {
            "stage": "3",
            "precision": "amp_fp16",
            "learning_rate": "1e-3",
            "offload_optimizer": "host",
            "disk_path": None,
        }
    ) == FlagOverrides(
        stage=3,
        precision=Precision.AMP_FP16,
        learning_rate=1e-3,
        offload_optimizer=Tier.HOST,
    )


def test_faults_of_flags_come_in_one_error() -> None:
    with pytest.raises(ConfigError) as error:
        FlagOverrides.from_mapping({"stag": 1, "stage": 9, "precision": "fp8", "total_steps": 0})
    assert sorted(error.value.faults) == [
        '--precision must be "fp32" or "fp16" or "bf16" or "amp_fp16" or "amp_bf16", not "fp8"',
        "--stage must be a whole number at least 0 and at most 3, not 9",
        "--total-steps must be a whole number at least 1, not 0",
        'flag "stag" is not known; did you mean "stage"?',
    ]


def test_a_wrong_flag_is_a_fault_beside_those_of_the_file() -> None:
    with pytest.raises(ConfigError) as error:
        overridden({"typo": 1}, stage=9)
    assert error.value.faults == (
        '"typo" is not a known key',
        "--stage must be a whole number at least 0 and at most 3, not 9",
    )


def test_sizes_follow_from_the_hidden_size() -> None:
    sizes = {
        "reduce_bucket_size": "auto",
        "stage3_prefetch_bucket_size": "auto",
        "stage3_param_persistence_threshold": "auto",
    }
    zero = load_config(
        {"zero_optimization": {"stage": 3, **sizes}},
        world_size=1,
        model_facts=ModelFacts(hidden_size=100),
    ).zero
    assert (zero.reduce_bucket_elements, zero.prefetch_elements) == (10_000, 9_000)
    assert zero.persistence_threshold_elements == 1_000


def test_auto_of_stage_3_is_without_bearing_below_it() -> None:
    zero = load_config(
        {"zero_optimization": {"stage": 1, "stage3_prefetch_bucket_size": "auto"}}, world_size=1
    ).zero
    assert zero.prefetch_elements == 50_000_000


@pytest.mark.parametrize(
    ("fp16", "bf16", "known", "precision"),
    [
        ("auto", "auto", Precision.FP16, Precision.FP16),
        ("auto", "auto", Precision.BF16, Precision.BF16),
        ("auto", "auto", Precision.FP32, Precision.FP32),
        ("auto", True, None, Precision.BF16),
        (True, "auto", None, Precision.FP16),
    ],
)
def test_auto_switches_settle_each_other(fp16, bf16, known, precision) -> None:
    blocks = {"fp16": {"enabled": fp16}, "bf16": {"enabled": bf16}}
    config = load_config(blocks, world_size=1, script_facts=ScriptFacts(precision=known))
    assert config.precision.precision is precision


def test_auto_switches_with_nothing_known_are_named() -> None:
    with pytest.raises(ConfigError) as error:
        load_config({"fp16": {"enabled": "auto"}}, world_size=1)
    assert error.value.faults == (
        'fp16.enabled is "auto" and nothing resolves it: write a value,'
        " or start with --fp16, --bf16 or --fp32",
    )


def test_facts_of_the_script_fill_auto_and_override_nothing() -> None:
    script = ScriptFacts(
        learning_rate=1.0, betas=(0.8, 0.9), eps=1e-6, weight_decay=0.2, clip_norm=0.3
    )
    params = {"lr": 0.5, "betas": "auto", "eps": "auto", "weight_decay": "auto"}
    blocks = {"gradient_clipping": "auto", "optimizer": {"type": "AdamW", "params": params}}
    config = load_config(blocks, world_size=1, script_facts=script)
    assert config.clip_norm == 0.3
    assert config.optimizer is not None
    assert config.optimizer.params == {
        "lr": 0.5,
        "betas": (0.8, 0.9),
        "eps": 1e-6,
        "weight_decay": 0.2,
    }
