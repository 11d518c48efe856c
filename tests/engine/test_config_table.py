"""The table of keys is the one truth: defaults, README, schedules, writing back, no torch."""

import dataclasses
import inspect
import json
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import engine.config
from engine import schedules
from engine.config.foreign import FOREIGN
from engine.config.key import Kind
from engine.config.keys import ALIASES, KEYS, OLD_SWITCHES
from engine.config.load import load_config, read_config
from engine.config.optimizer_block import OPTIMIZERS
from engine.config.policies import (
    AtMinimum,
    BatchPolicy,
    Config,
    LossScalePolicy,
    OptimizerPolicy,
    PrecisionPolicy,
    ScaleRule,
    SchedulePolicy,
    ZeroPolicy,
)
from engine.config.scheduler_block import REQUIRED, SCHEDULES, TORCH_SCHEDULES
from engine.config.table import markdown
from engine.config.values import TIERS, requirement
from engine.config.write import to_deepspeed
from probe.errors import ConfigError
from probe.schema.vocabulary import Precision

ROOM = Path(engine.config.__file__).parent


def field_of(config: Config, lands: str):
    value = config
    for name in lands.split("."):
        value = getattr(value, name)
    return value


@pytest.mark.parametrize("path", [path for path, key in KEYS.items() if key.direct])
def test_the_stated_default_is_the_one_of_the_policy(path: str) -> None:
    key = KEYS[path]
    default = TIERS[key.default] if key.kind is Kind.TIER else key.default
    assert field_of(Config(), key.lands) == default


def test_every_field_of_a_policy_has_a_key() -> None:
    landed = {key.lands.strip("()") for key in KEYS.values()}
    without = {"precision.loss_scale.rule", "offload_optimizer.buffer_elements"} | {
        f"offload_params.{name}" for name in ("pipeline_read", "pipeline_write", "ratio")
    }

    def fields(value, prefix=""):
        for item in dataclasses.fields(value):
            inner = getattr(value, item.name)
            if dataclasses.is_dataclass(inner):
                yield from fields(inner, f"{prefix}{item.name}.")
            else:
                yield f"{prefix}{item.name}"

    named = set(fields(Config())) - {"optimizer", "schedule"}
    assert named - landed == without


def test_no_key_is_both_taken_and_not_here() -> None:
    assert not KEYS.keys() & FOREIGN.keys()
    assert not ALIASES.keys() & (KEYS.keys() | FOREIGN.keys())


def test_the_readme_holds_the_table() -> None:
    readme = (ROOM / "README.md").read_text(encoding="utf-8")
    assert readme.endswith(markdown()), "put in the output of `python -m engine.config.table`"


@pytest.mark.parametrize("name", SCHEDULES)
def test_the_parameters_of_a_schedule_are_those_of_its_class(name: str) -> None:
    parameters = dict(inspect.signature(getattr(schedules, name)).parameters)
    del parameters["optimizer"]
    assert {key.path.rpartition(".")[2] for key in SCHEDULES[name]} == parameters.keys()
    required = {
        parameter.name
        for parameter in parameters.values()
        if parameter.default is inspect.Parameter.empty
    }
    assert set(REQUIRED.get(name, ())) == required


def test_the_named_schedulers_and_optimizer_parameters_are_torchs() -> None:
    for name in TORCH_SCHEDULES:
        assert hasattr(torch.optim.lr_scheduler, name)
    for name in OPTIMIZERS.keys() - {"Lion"}:
        theirs = inspect.signature(getattr(torch.optim, name)).parameters
        assert {key.path.rpartition(".")[2] for key in OPTIMIZERS[name]} <= theirs.keys()


numbers = st.floats(0, 1e6, allow_nan=False)
sizes = st.integers(1, 10**9)
precisions = st.one_of(
    st.builds(
        PrecisionPolicy,
        precision=st.sampled_from([Precision.FP32, Precision.FP16, Precision.BF16]),
        loss_scale=st.builds(
            LossScalePolicy,
            static_scale=numbers,
            initial_scale_power=st.integers(0, 127),
            window_steps=sizes,
            hysteresis=st.integers(1, 9),
            consecutive_hysteresis=st.booleans(),
            at_minimum=st.sampled_from(AtMinimum),
        ),
        accumulate_in_fp32=st.booleans(),
        communication_dtype=st.sampled_from([None, "fp32", "fp16", "bf16"]),
    ),
    st.builds(
        PrecisionPolicy,
        precision=st.sampled_from([Precision.AMP_FP16, Precision.FP16]),
        loss_scale=st.builds(
            LossScalePolicy, rule=st.just(ScaleRule.GRAD_SCALER), window_steps=sizes
        ),
    ),
    st.just(PrecisionPolicy(precision=Precision.AMP_BF16)),
)
configs = st.builds(
    Config,
    batch=st.builds(
        lambda micro, steps: BatchPolicy(
            train=micro * steps * 3, micro=micro, accumulation_steps=steps
        ),
        st.integers(1, 99),
        st.integers(1, 9),
    ),
    precision=precisions,
    zero=st.builds(
        ZeroPolicy,
        stage=st.integers(0, 3),
        reduce_bucket_elements=sizes,
        overlap_communication=st.booleans(),
        prefetch_elements=sizes,
        gather_16bit_weights_on_save=st.booleans(),
    ),
    optimizer=st.sampled_from(
        [
            None,
            OptimizerPolicy(type="Adam", params={"lr": 0.1}),
            OptimizerPolicy(type="AdamW", params={"betas": (0.8, 0.9), "weight_decay": 0.0}),
            OptimizerPolicy(type="SGD", params={"momentum": 0.9, "nesterov": True}),
            OptimizerPolicy(type="Lion", params={}),
        ]
    ),
    schedule=st.sampled_from(
        [
            None,
            SchedulePolicy(type="WarmupLR", params={"warmup_max_lr": [0.1, 0.2]}),
            SchedulePolicy(type="WarmupDecayLR", params={"total_num_steps": 9}),
            SchedulePolicy(type="StepLR", params={"step_size": 3}),
        ]
    ),
    clip_norm=numbers,
    prescale_gradients=st.booleans(),
    predivide_factor=st.floats(0.5, 8),
    steps_per_print=st.none() | sizes,
)


@settings(deadline=None)
@given(config=configs)
def test_a_config_written_as_json_is_read_as_itself(config: Config) -> None:
    blocks = json.loads(json.dumps(to_deepspeed(config)))
    assert load_config(blocks, world_size=3) == config
    assert load_config(config, world_size=3) == config


scraps = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**400), 10**400),
    st.integers(-2, 8),
    st.floats(),
    st.sampled_from(["auto", "true", "cpu", "nvme", "fp16", "AdamW", "WarmupLR", "1e3", ""]),
    st.text(max_size=5),
    st.lists(st.integers(), max_size=3),
    st.dictionaries(st.sampled_from(["enabled", "lr", "x", "device"]), st.booleans(), max_size=2),
)


@st.composite
def anything(draw):
    """Blocks with some known keys, some unknown, and any values."""
    blocks: dict = {}
    paths = st.sampled_from(
        [*KEYS, *FOREIGN, *ALIASES, *OLD_SWITCHES, "optimizer.params", "scheduler.params"]
    )
    for path in draw(st.lists(paths | st.text(max_size=8), max_size=8)):
        inner = blocks
        *parents, leaf = path.split(".")
        for parent in parents:
            if not isinstance(inner.get(parent), dict):
                inner[parent] = {}
            inner = inner[parent]
        inner[leaf] = draw(scraps)
    return blocks


@settings(deadline=None)
@given(blocks=anything(), world_size=st.integers(1, 5))
def test_any_blocks_are_a_config_or_a_config_error(blocks: dict, world_size: int) -> None:
    try:
        config = read_config(blocks, world_size=world_size).config
    except ConfigError as error:
        assert error.faults
    else:
        assert load_config(config, world_size=world_size) == config


WRONG = {
    **{
        path: (None, f"{path} must be {requirement(key)}, not")
        for path, key in KEYS.items()
        if key.kind is not Kind.TEXT
    },
    **{
        path: ("surely not this", f"{path} ") for path, key in FOREIGN.items() if key.changes_result
    },
    "zero_optimization.stagee": (1, '"zero_optimization.stagee" is not a known key'),
    "tarin_batch_size": (1, '"tarin_batch_size" is not a known key'),
}


@settings(deadline=None)
@given(paths=st.sets(st.sampled_from(sorted(WRONG)), min_size=1, max_size=6))
def test_every_fault_put_in_is_in_the_message(paths: set[str]) -> None:
    blocks: dict = {}
    for path in paths:
        inner = blocks
        *parents, leaf = path.split(".")
        for parent in parents:
            inner = inner.setdefault(parent, {})
        wrong = WRONG[path][0]
        inner[leaf] = [[]] if wrong is None else wrong
    with pytest.raises(ConfigError) as error:
        load_config(blocks, world_size=1)
    for path in paths:
        assert any(fault.startswith(WRONG[path][1]) for fault in error.value.faults)
    assert len(error.value.faults) == len(paths)
