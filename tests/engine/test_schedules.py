"""The schedules: their values by hand, their state, their faults, and DeepSpeed as the witness."""

import importlib.util
import math
import warnings

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.config.policies import SchedulePolicy
from engine.schedules import build_schedule
from probe.errors import ConfigError


def adam(*learning_rates: float) -> torch.optim.Optimizer:
    groups = [{"params": [torch.zeros(1)], "lr": lr} for lr in learning_rates or (0.1,)]
    return torch.optim.Adam(groups)


def built(kind: str, optimizer: torch.optim.Optimizer | None = None, **params):
    return build_schedule(optimizer or adam(), SchedulePolicy(type=kind, params=params))


def rates(schedule, steps: int) -> list[float]:
    """The learning rate of the first group in each of the first `steps` optimizer steps."""
    seen = []
    for _ in range(steps):
        seen.append(schedule.optimizer.param_groups[0]["lr"])
        schedule.optimizer.step()
        schedule.step()
    return seen


def test_linear_warmup_then_flat() -> None:
    schedule = built("WarmupLR", warmup_max_lr=1.0, warmup_num_steps=4, warmup_type="linear")
    assert rates(schedule, 8) == [0, 0, 0.25, 0.5, 0.75, 1, 1, 1]


def test_logarithmic_warmup_is_the_default_and_ends_at_the_rate_of_the_optimizer() -> None:
    schedule = built("WarmupLR", warmup_min_lr=0.01, warmup_num_steps=4)
    climb = [math.log(k) / math.log(4) for k in (1, 2, 3, 4)]
    expected = [0.01, *(0.01 + 0.09 * height for height in climb), 0.1]
    assert rates(schedule, 6) == pytest.approx(expected, rel=1e-15)


def test_warmup_then_linear_decay_to_zero() -> None:
    schedule = built(
        "WarmupDecayLR",
        total_num_steps=8,
        warmup_max_lr=1.0,
        warmup_num_steps=4.0,
        warmup_type="linear",
    )
    assert rates(schedule, 12) == [0, 0, 0.25, 0.5, 0.75, 1, 0.75, 0.5, 0.25, 0, 0, 0]


def test_warmup_then_cosine_to_its_floor_on_every_group() -> None:
    optimizer = adam(1.0, 0.5)
    schedule = built(
        "WarmupCosineLR",
        optimizer,
        total_num_steps=6,
        warmup_num_steps=2,
        warmup_type="linear",
        warmup_min_ratio=0.5,
        cos_min_ratio=0.1,
    )
    cosine = [0.1 + 0.9 * (1 + math.cos(math.pi * part)) / 2 for part in (0.25, 0.5, 0.75, 1, 1)]
    assert [group["lr"] for group in optimizer.param_groups] == [0, 0]
    assert rates(schedule, 8) == pytest.approx([0, 0.5, 0.75, *cosine], rel=1e-15)
    assert optimizer.param_groups[1]["lr"] == pytest.approx(0.05)


def test_one_cycle_climbs_falls_and_decays_with_momentum_against_it() -> None:
    optimizer = adam()
    schedule = built(
        "OneCycle",
        optimizer,
        cycle_min_lr=1.0,
        cycle_max_lr=3.0,
        cycle_first_step_size=2,
        cycle_second_step_size=4,
        decay_step_size=1,
        decay_lr_rate=1.0,
        cycle_min_mom=0.5,
        cycle_max_mom=0.9,
    )
    momenta = []
    seen = []
    for _ in range(9):
        seen.append(optimizer.param_groups[0]["lr"])
        momenta.append(optimizer.param_groups[0]["betas"])
        optimizer.step()
        schedule.step()
    assert seen == pytest.approx([1, 2, 3, 2.5, 2, 1.5, 1, 1 / 2, 1 / 3])
    firsts = [0.5, 0.7, 0.5, 0.6, 0.7, 0.8, 0.9, 0.9, 0.9]
    assert [first for first, _ in momenta] == pytest.approx(firsts)
    assert [second for _, second in momenta[1:]] == [0.99] * 8


def test_one_cycle_in_stairs() -> None:
    schedule = built(
        "OneCycle",
        cycle_min_lr=0.0,
        cycle_max_lr=1.0,
        cycle_first_step_size=4,
        cycle_first_stair_count=2,
    )
    assert rates(schedule, 9) == [0, 0, 0.5, 0.5, 1, 0.5, 0.5, 0, 0]


def test_one_cycle_says_that_it_leaves_an_optimizer_without_betas_alone() -> None:
    optimizer = torch.optim.SGD([torch.zeros(1)], lr=0.1, momentum=0.9)
    with pytest.warns(UserWarning, match="SGD has no betas"):
        built("OneCycle", optimizer, cycle_min_lr=0.1, cycle_max_lr=1.0)
    assert "betas" not in optimizer.param_groups[0]


def test_range_test_climbs_in_a_line_or_in_stairs() -> None:
    line = built("LRRangeTest", lr_range_test_min_lr=1.0, lr_range_test_step_size=2)
    assert rates(line, 5) == [1, 1.5, 2, 2.5, 3]
    stairs = built(
        "LRRangeTest",
        lr_range_test_min_lr=1.0,
        lr_range_test_step_size=2,
        lr_range_test_staircase=True,
    )
    assert rates(stairs, 5) == [1, 1, 2, 2, 3]


def test_a_step_that_is_not_taken_repeats_its_rate() -> None:
    schedule = built("WarmupLR", warmup_max_lr=1.0, warmup_num_steps=4, warmup_type="linear")
    rates(schedule, 3)
    assert schedule.optimizer.param_groups[0]["lr"] == 0.5
    schedule.optimizer.step()
    assert schedule.optimizer.param_groups[0]["lr"] == 0.5


EXAMPLES = {
    "WarmupLR": {"warmup_max_lr": 1.0, "warmup_num_steps": 5},
    "WarmupDecayLR": {"total_num_steps": 12, "warmup_num_steps": 5},
    "WarmupCosineLR": {"total_num_steps": 12, "warmup_num_steps": 5},
    "OneCycle": {"cycle_min_lr": 0.1, "cycle_max_lr": 1.0, "cycle_first_step_size": 5},
    "LRRangeTest": {"lr_range_test_step_size": 3},
    "StepLR": {"step_size": 3},
    "CosineAnnealingLR": {"T_max": 10},
}


@pytest.mark.parametrize("kind", EXAMPLES)
@pytest.mark.parametrize("position", [0, 1, 7])
def test_a_loaded_schedule_goes_on_where_it_was(kind: str, position: int) -> None:
    whole = built(kind, **EXAMPLES[kind])
    rates(whole, position)
    resumed = built(kind, **EXAMPLES[kind])
    resumed.optimizer.load_state_dict(whole.optimizer.state_dict())
    resumed.load_state_dict(whole.state_dict())
    assert resumed.get_last_lr() == whole.get_last_lr()
    for _ in range(8):
        ours, theirs = resumed.optimizer.param_groups[0], whole.optimizer.param_groups[0]
        assert (ours["lr"], ours["betas"]) == (theirs["lr"], theirs["betas"])
        rates(whole, 1)
        rates(resumed, 1)


def test_the_position_alone_restores_the_rates_and_momenta() -> None:
    whole = built("OneCycle", **EXAMPLES["OneCycle"])
    rates(whole, 4)
    assert whole.state_dict() == {"last_batch_iteration": 3}
    resumed = built("OneCycle", **EXAMPLES["OneCycle"])
    resumed.load_state_dict({"last_batch_iteration": 3})
    ours, theirs = resumed.optimizer.param_groups[0], whole.optimizer.param_groups[0]
    assert (ours["lr"], ours["betas"]) == (theirs["lr"], theirs["betas"])


def test_a_learning_rate_held_in_a_tensor_is_changed_in_place() -> None:
    optimizer = torch.optim.Adam([torch.zeros(1)], lr=torch.tensor(0.1))
    held = optimizer.param_groups[0]["lr"]
    schedule = built("WarmupLR", optimizer, warmup_num_steps=2, warmup_type="linear")
    schedule.load_state_dict({"last_batch_iteration": 1})
    assert optimizer.param_groups[0]["lr"] is held
    assert held.item() == pytest.approx(0.05)


@pytest.mark.parametrize(
    ("kind", "params", "faults"),
    [
        ("WarmupLr", {}, ['type "WarmupLr" is not known; did you mean "WarmupLR"?']),
        ("CosineAnealingLR", {}, ['type "CosineAnealingLR" is not known; did you mean "Cosine']),
        (
            "WarmupDecayLR",
            {"warmup_steps": 3, "warmup_max": 1.0},
            [
                'parameter "warmup_steps" is not known; did you mean "warmup_num_steps"?',
                'parameter "warmup_max" is not known; did you mean "warmup_max_lr"?',
                'WarmupDecayLR needs "total_num_steps"',
            ],
        ),
        ("StepLR", {"gama": 0.1}, ['did you mean "gamma"?', 'StepLR needs "step_size"']),
        ("WarmupLR", {"warmup_num_steps": 2.5}, ["warmup_num_steps must be a whole number"]),
        ("WarmupLR", {"warmup_num_steps": True}, ["at least 1, not True"]),
        ("WarmupLR", {"warmup_type": "lin"}, ['"lin" is not known; did you mean "linear"?']),
        ("WarmupLR", {"warmup_max_lr": [1.0, 2.0]}, ["has 2 values for 1 parameter groups"]),
        ("OneCycle", {"cycle_min_lr": 0.1}, ['OneCycle needs "cycle_max_lr"']),
        (
            "OneCycle",
            {"cycle_min_lr": 0.1, "cycle_max_lr": 1.0, "cycle_first_step_size": 0},
            ["cycle_first_step_size must be above 0, not 0"],
        ),
        ("ReduceLROnPlateau", {}, ["ReduceLROnPlateau must be told a metric"]),
        ("SequentialLR", {"milestones": [3]}, ['SequentialLR needs "schedulers"']),
        ("CosineAnnealingWarmRestarts", {"T_0": 0}, ["WarmRestarts: Expected positive"]),
    ],
)
def test_faults_are_named_with_the_nearest_known_name(kind, params, faults) -> None:
    with pytest.raises(ConfigError) as error:
        built(kind, **params)
    for fault in faults:
        assert fault in str(error.value)
    assert len(error.value.faults) == len(faults)


def test_a_run_too_short_to_warm_up_is_warned_of() -> None:
    with pytest.warns(UserWarning, match="total_num_steps 3 is less than warmup_num_steps 1000"):
        built("WarmupDecayLR", total_num_steps=3)


small = st.integers(1, 9)
rate = st.floats(1e-6, 1.0)
cycles = st.fixed_dictionaries(
    {"cycle_min_lr": rate, "cycle_max_lr": rate},
    optional={
        "decay_lr_rate": rate,
        "decay_mom_rate": rate,
        "decay_step_size": st.integers(0, 5),
        "cycle_first_step_size": small,
        "cycle_second_step_size": st.integers(0, 9),
        "cycle_first_stair_count": st.integers(0, 4),
        "cycle_second_stair_count": st.integers(0, 4),
        "cycle_min_mom": rate,
        "cycle_max_mom": rate,
    },
)
warmups = {"warmup_num_steps": small, "warmup_type": st.sampled_from(["log", "linear"])}
limits = {"warmup_min_lr": rate, "warmup_max_lr": rate}
choices = st.one_of(
    st.tuples(st.just("WarmupLR"), st.fixed_dictionaries({}, optional={**warmups, **limits})),
    st.tuples(
        st.just("WarmupDecayLR"),
        st.fixed_dictionaries({"total_num_steps": small}, optional={**warmups, **limits}),
    ),
    st.tuples(
        st.just("WarmupCosineLR"),
        st.fixed_dictionaries(
            {"total_num_steps": small},
            optional={**warmups, "warmup_min_ratio": rate, "cos_min_ratio": rate},
        ),
    ),
    st.tuples(st.just("OneCycle"), cycles),
    st.tuples(
        st.just("LRRangeTest"),
        st.fixed_dictionaries(
            {},
            optional={
                "lr_range_test_min_lr": rate,
                "lr_range_test_step_size": small,
                "lr_range_test_step_rate": rate,
                "lr_range_test_staircase": st.booleans(),
            },
        ),
    ),
)


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("deepspeed") is None, reason="needs deepspeed")
@pytest.mark.filterwarnings("ignore")
@settings(deadline=None, max_examples=300)
@given(choice=choices)
def test_every_rate_and_momentum_is_the_one_of_deepspeed(choice) -> None:
    from deepspeed.runtime import lr_schedules

    kind, params = choice
    optimizer, witnessed = adam(0.1, 0.2), adam(0.1, 0.2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ours = built(kind, optimizer, **params)
        witness = getattr(lr_schedules, kind)(witnessed, **params)
    for _ in range(25):
        for group, other in zip(optimizer.param_groups, witnessed.param_groups, strict=True):
            assert group["lr"] == pytest.approx(other["lr"], rel=1e-12, abs=1e-15)
            assert group["betas"] == pytest.approx(other["betas"], rel=1e-12)
        optimizer.step()
        ours.step()
        witness.step()
    assert ours.state_dict() == witness.state_dict()
