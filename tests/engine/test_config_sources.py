"""Files as users of DeepSpeed and Accelerate write them: both outcomes, literally."""

import json
from pathlib import Path

import pytest

from engine.config.facts import ModelFacts, ScriptFacts
from engine.config.flags import FlagOverrides
from engine.config.load import load_config, read_config
from engine.config.policies import (
    BatchPolicy,
    Config,
    LossScalePolicy,
    OffloadPolicy,
    OptimizerPolicy,
    PrecisionPolicy,
    SchedulePolicy,
    ZeroPolicy,
)
from probe.errors import ConfigError
from probe.schema.vocabulary import Precision, Tier

HERE = Path(__file__).parent / "configs"
MODEL = ModelFacts(hidden_size=64)
SCRIPT = ScriptFacts(
    learning_rate=3e-4, weight_decay=0.1, micro_batch=8, warmup_steps=10, total_steps=100
)
DATA_LOADER_DECIDES = (
    "neither train_batch_size nor train_micro_batch_size_per_gpu is given:"
    " the script's data loader decides the batch"
)
ADAMW = OptimizerPolicy(type="AdamW", params={"lr": 3e-4, "weight_decay": 0.1})
WARMUP = SchedulePolicy(
    type="WarmupDecayLR",
    params={
        "warmup_min_lr": 0.0,
        "warmup_max_lr": 3e-4,
        "warmup_num_steps": 10,
        "total_num_steps": 100,
    },
)
ZERO2 = Config(
    batch=BatchPolicy(train=16, micro=8, accumulation_steps=1),
    precision=PrecisionPolicy(
        precision=Precision.FP16, loss_scale=LossScalePolicy(initial_scale_power=15)
    ),
    zero=ZeroPolicy(
        stage=2, reduce_bucket_elements=200_000_000, allgather_bucket_elements=200_000_000
    ),
    optimizer=ADAMW,
    schedule=WARMUP,
    steps_per_print=2000,
)
ZERO3 = Config(
    batch=BatchPolicy(train=16, micro=8, accumulation_steps=1),
    precision=PrecisionPolicy(precision=Precision.FP16),
    zero=ZeroPolicy(
        stage=3,
        reduce_bucket_elements=64 * 64,
        prefetch_elements=3686,
        persistence_threshold_elements=640,
        gather_16bit_weights_on_save=True,
    ),
    offload_optimizer=OffloadPolicy(tier=Tier.HOST),
    offload_params=OffloadPolicy(tier=Tier.HOST, buffer_count=5),
    optimizer=ADAMW,
    schedule=WARMUP,
    steps_per_print=2000,
)
BY_HIDDEN_SIZE = "write a value, or pass a model whose config has a hidden_size"
UNRESOLVED_SIZES = [
    f'zero_optimization.{name} is "auto" and nothing resolves it: {BY_HIDDEN_SIZE}'
    for name in (
        "reduce_bucket_size",
        "stage3_prefetch_bucket_size",
        "stage3_param_persistence_threshold",
    )
]
UNRESOLVED = [
    'optimizer.params.lr is "auto" and nothing resolves it: write a value, or start with --lr,'
    " or pass an optimizer to initialize()",
    'optimizer.params.weight_decay is "auto" and nothing resolves it: write a value,'
    " or pass an optimizer to initialize()",
    'scheduler.params.warmup_max_lr is "auto" and nothing resolves it: write a value,'
    " or start with --lr",
    'scheduler.params.warmup_num_steps is "auto" and nothing resolves it: write a value,'
    " or start with --warmup-steps",
    'scheduler.params.total_num_steps is "auto" and nothing resolves it: write a value,'
    " or start with --total-steps",
    'train_batch_size is "auto" and nothing resolves it: write a value,'
    " or start with --micro-batch",
    'train_micro_batch_size_per_gpu is "auto" and nothing resolves it: write a value,'
    " or start with --micro-batch",
]


@pytest.mark.parametrize(
    ("name", "config", "notes"),
    [
        (
            "ds_bf16.json",
            Config(
                batch=BatchPolicy(train=64, micro=8, accumulation_steps=4),
                precision=PrecisionPolicy(precision=Precision.BF16),
            ),
            (),
        ),
        (
            "ds_fp16.json",
            Config(
                batch=BatchPolicy(train=64, micro=8, accumulation_steps=4),
                precision=PrecisionPolicy(precision=Precision.FP16),
            ),
            (),
        ),
        (
            "ds_fp16_commented.json",
            Config(precision=PrecisionPolicy(precision=Precision.FP16)),
            (DATA_LOADER_DECIDES,),
        ),
        (
            "accelerate_zero2_plugin.yaml",
            Config(precision=PrecisionPolicy(precision=Precision.FP16), zero=ZeroPolicy(stage=2)),
            (DATA_LOADER_DECIDES,),
        ),
    ],
)
def test_files_that_say_all_are_taken_as_they_stand(name, config, notes) -> None:
    loaded = read_config(HERE / name, world_size=2)
    assert loaded.config == config
    assert loaded.notes == notes
    assert loaded.overrides == ()
    assert loaded.source == str(HERE / name)


@pytest.mark.parametrize(
    ("name", "config"),
    [
        ("zero2_config_accelerate.json", ZERO2),
        ("accelerate_zero2_file.yaml", ZERO2),
        ("zero3_offload_config_accelerate.json", ZERO3),
        ("accelerate_zero3_offload_file.yaml", ZERO3),
    ],
)
def test_files_with_auto_are_filled_from_facts(name: str, config: Config) -> None:
    loaded = read_config(HERE / name, world_size=2, model_facts=MODEL, script_facts=SCRIPT)
    assert loaded.config == config
    assert loaded.notes == ('gradient_clipping "auto" is read as 1.0',)


@pytest.mark.parametrize(
    ("name", "faults"),
    [
        ("zero2_config_accelerate.json", UNRESOLVED),
        ("accelerate_zero2_file.yaml", UNRESOLVED),
        ("zero3_offload_config_accelerate.json", UNRESOLVED_SIZES + UNRESOLVED),
        ("accelerate_zero3_offload_file.yaml", UNRESOLVED_SIZES + UNRESOLVED),
    ],
)
def test_files_with_auto_and_no_facts_name_every_key(name: str, faults: list[str]) -> None:
    with pytest.raises(ConfigError) as error:
        read_config(HERE / name, world_size=2)
    assert list(error.value.faults) == faults
    assert str(error.value).startswith(f"{HERE / name}: {len(faults)} problems\n  - ")


def test_flags_fill_what_the_files_leave_open() -> None:
    loaded = read_config(
        HERE / "zero2_config_accelerate.json",
        world_size=2,
        flags=FlagOverrides(learning_rate=3e-4, micro_batch=8, warmup_steps=10, total_steps=100),
        script_facts=ScriptFacts(weight_decay=0.1),
    )
    assert loaded.config == ZERO2
    assert loaded.overrides == (
        '--micro-batch 8 fills train_micro_batch_size_per_gpu "auto"',
        '--lr 0.0003 fills optimizer.params.lr "auto"',
        '--warmup-steps 10 fills scheduler.params.warmup_num_steps "auto"',
        '--total-steps 100 fills scheduler.params.total_num_steps "auto"',
        '--lr 0.0003 fills scheduler.params.warmup_max_lr "auto"',
    )


def test_an_optimizer_of_the_script_wins_over_the_file() -> None:
    loaded = read_config(
        HERE / "zero2_config_accelerate.json",
        world_size=2,
        script_facts=ScriptFacts(own_optimizer=True, own_schedule=True, micro_batch=8),
    )
    assert loaded.config.optimizer is None
    assert loaded.config.schedule is None
    assert loaded.notes[:2] == (
        'optimizer "AdamW" is not built: the script passes its own',
        'scheduler "WarmupDecayLR" is not built: the script passes its own',
    )


def test_a_dict_a_file_and_a_config_give_the_same(tmp_path: Path) -> None:
    blocks = {"train_micro_batch_size_per_gpu": 4, "zero_optimization": {"stage": 3}}
    (tmp_path / "c.json").write_text(json.dumps(blocks))
    from_dict = load_config(blocks, world_size=3)
    assert from_dict.batch == BatchPolicy(train=12, micro=4, accumulation_steps=1)
    assert load_config(str(tmp_path / "c.json"), world_size=3) == from_dict
    assert load_config(from_dict, world_size=3) == from_dict


def test_loading_leaves_the_dict_as_it_was() -> None:
    blocks = json.loads((HERE / "zero3_offload_config_accelerate.json").read_text())
    before = json.dumps(blocks)
    load_config(
        blocks,
        world_size=2,
        model_facts=MODEL,
        script_facts=SCRIPT,
        flags=FlagOverrides(stage=1, precision=Precision.BF16, learning_rate=1.0),
    )
    assert json.dumps(blocks) == before


@pytest.mark.parametrize(
    ("name", "content", "fault"),
    [
        ("absent.json", None, "absent.json cannot be read: No such file or directory"),
        ("binary.json", b"\xff\xfe\x00", "binary.json cannot be read: it is no UTF-8 text"),
        ("broken.json", b'{"fp16": }', "broken.json: line 1, column 10: Expecting value"),
        ("list.json", b"[1]", "list.json must hold a block of keys"),
        ("twice.json", b'{"fp16": {}, "fp16": {}}', '"fp16" stands twice in one block of twice'),
        ("broken.yaml", b"a: [", "cannot be read as YAML: while parsing"),
        ("text.yaml", b"word", 'must be a block of keys, not "word"'),
        (
            "file.yaml",
            b"deepspeed_config: {deepspeed_config_file: gone.json}",
            "gone.json cannot be read: No such file",
        ),
    ],
)
def test_files_that_cannot_be_read_are_faults(tmp_path: Path, name, content, fault) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(ConfigError) as error:
        load_config(tmp_path / name, world_size=1)
    assert fault in str(error.value)


def accelerate(tmp_path: Path, text: str, world_size: int = 2, **blocks):
    """A YAML, with the DeepSpeed file it names if there are blocks for one."""
    if blocks:
        (tmp_path / "ds.json").write_text(json.dumps(blocks))
        text += "\ndeepspeed_config: {deepspeed_config_file: ds.json}"
    (tmp_path / "accelerate.yaml").write_text(text)
    return read_config(tmp_path / "accelerate.yaml", world_size=world_size)


def test_every_plugin_key_lands(tmp_path: Path) -> None:
    loaded = accelerate(
        tmp_path,
        """
        distributed_type: DEEPSPEED
        mixed_precision: bf16
        num_processes: 8
        dynamo_config: {dynamo_backend: INDUCTOR}
        deepspeed_config:
          zero_stage: 3
          gradient_accumulation_steps: 4
          gradient_clipping: 0.5
          offload_optimizer_device: nvme
          offload_optimizer_nvme_path: /scratch
          offload_param_device: cpu
          offload_param_nvme_path: none
          zero3_save_16bit_model: true
          zero3_init_flag: true
          deepspeed_multinode_launcher: standard
        """,
    )
    assert loaded.config == Config(
        batch=BatchPolicy(accumulation_steps=4),
        precision=PrecisionPolicy(precision=Precision.BF16),
        zero=ZeroPolicy(stage=3, gather_16bit_weights_on_save=True),
        offload_optimizer=OffloadPolicy(tier=Tier.DISK, disk_path="/scratch"),
        offload_params=OffloadPolicy(tier=Tier.HOST, buffer_count=5),
        clip_norm=0.5,
    )
    assert loaded.notes == (
        "dynamo_config is not read: compile the model in the script",
        "num_processes 8 is a matter of the launcher: this run has 2",
        DATA_LOADER_DECIDES,
    )


@pytest.mark.parametrize("word", ["no", "'no'"])
def test_accelerate_without_a_plugin_is_stage_0(tmp_path: Path, word: str) -> None:
    loaded = accelerate(tmp_path, f"distributed_type: MULTI_CPU\nmixed_precision: {word}")
    assert loaded.config == Config()


def test_a_plugin_without_a_stage_is_stage_2(tmp_path: Path) -> None:
    loaded = accelerate(tmp_path, "deepspeed_config: {gradient_clipping: 1.0}")
    assert loaded.config.zero.stage == 2


def test_mixed_precision_fills_auto_in_the_file(tmp_path: Path) -> None:
    loaded = accelerate(
        tmp_path,
        "mixed_precision: bf16",
        fp16={"enabled": "auto"},
        bf16={"enabled": "auto"},
    )
    assert loaded.config.precision.precision is Precision.BF16


@pytest.mark.parametrize(("fp16", "precision"), [("auto", Precision.FP32), (True, Precision.FP16)])
def test_mixed_precision_no_fills_auto_and_leaves_the_rest(tmp_path, fp16, precision) -> None:
    loaded = accelerate(
        tmp_path, "mixed_precision: no\ndistributed_type: NO", fp16={"enabled": fp16}
    )
    assert loaded.config.precision.precision is precision


def test_both_sides_may_write_the_same_value_differently(tmp_path: Path) -> None:
    (tmp_path / "ds.json").write_text(
        '{"gradient_clipping": 1,'
        ' "zero_optimization": {"stage": "3", "stage3_gather_16bit_weights_on_model_save": "true"}}'
    )
    loaded = accelerate(
        tmp_path,
        "deepspeed_config: {deepspeed_config_file: ds.json, zero_stage: 3,"
        " gradient_clipping: 1.0, zero3_save_16bit_model: true}",
    )
    assert loaded.config.zero == ZeroPolicy(stage=3, gather_16bit_weights_on_save=True)


def test_both_sides_of_an_accelerate_file_must_agree(tmp_path: Path) -> None:
    (tmp_path / "ds.json").write_text(
        json.dumps(
            {"gradient_clipping": 0.5, "zero_optimization": {"stage": 3}, "bf16": {"enabled": True}}
        )
    )
    with pytest.raises(ConfigError) as error:
        accelerate(
            tmp_path,
            "mixed_precision: fp16\n"
            "deepspeed_config:\n"
            "  deepspeed_config_file: ds.json\n"
            "  zero_stage: 2\n"
            "  gradient_clipping: 1.0",
        )
    assert error.value.faults[:3] == (
        "zero_optimization.stage is 2 in deepspeed_config and 3 in its file",
        "gradient_clipping is 1.0 in deepspeed_config and 0.5 in its file",
        "mixed_precision is fp16, but bf16.enabled is true in deepspeed_config_file",
    )


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("mixed_precison: fp16", 'key "mixed_precison" is not known; did you mean "mixed_prec'),
        (
            "deepspeed_config: {zero_stag: 2}",
            'deepspeed_config key "zero_stag" is not known; did you mean "zero_stage"?',
        ),
        ("deepspeed_config: 3", "deepspeed_config must be a block of keys, not 3"),
        ("fsdp_config: {fsdp_version: 2}", "fsdp_config is for another engine"),
        ("distributed_type: FSDP", 'distributed_type "FSDP" is another engine'),
        ("mixed_precision: fp8", 'mixed_precision "fp8" is not here: no, fp16 or bf16'),
        ("deepspeed_config: {enable_msamp: true}", "enable_msamp is not here"),
        ("deepspeed_config: {zero_stage: 5}", "zero_optimization.stage must be a whole number"),
    ],
)
def test_faults_of_an_accelerate_file_are_named(tmp_path: Path, text: str, fault: str) -> None:
    with pytest.raises(ConfigError) as error:
        accelerate(tmp_path, text)
    assert fault in str(error.value)
