"""The loss scaler against the tables worked out beforehand, and against torch's own."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.config.policies import AtMinimum, LossScalePolicy, PrecisionPolicy, ScaleRule
from engine.loss_scale import LARGEST_FLOAT32, LossScaler, ScaleAtMinimumError
from probe.errors import ProbeError
from probe.schema.vocabulary import Precision

K = 1024.0
# Step, overflow, then (scale in K, hysteresis left) by default, with consecutive hysteresis, and
# the scale in K of torch's GradScaler. Window 4, hysteresis 2, start 64 K.
TABLE = [
    (0, False, (64, 2), (64, 2), 64),
    (1, False, (64, 2), (64, 2), 64),
    (2, False, (64, 2), (64, 2), 64),
    (3, False, (64, 2), (64, 2), 128),
    (4, False, (128, 2), (128, 2), 128),
    (5, True, (128, 1), (128, 1), 64),
    (6, True, (64, 1), (64, 1), 32),
    (7, False, (64, 1), (64, 2), 32),
    (8, True, (32, 1), (64, 1), 16),
    (9, False, (32, 1), (64, 2), 16),
    (10, False, (32, 1), (64, 2), 16),
    (11, False, (32, 1), (64, 2), 16),
    (12, False, (32, 1), (64, 2), 32),
    (13, False, (64, 2), (128, 2), 32),
    (14, True, (64, 1), (128, 1), 16),
    (15, False, (64, 1), (128, 2), 16),
]

policies = st.builds(
    LossScalePolicy,
    rule=st.sampled_from(ScaleRule),
    initial_scale_power=st.integers(0, 20),
    window_steps=st.integers(1, 6),
    hysteresis=st.integers(1, 4),
    consecutive_hysteresis=st.booleans(),
    at_minimum=st.just(AtMinimum.CLAMP),
)
histories = st.lists(st.booleans(), max_size=60)


def starting_at(scale: float, **choices) -> LossScaler:
    scaler = LossScaler(LossScalePolicy(**choices))
    scaler.scale = scale
    return scaler


def test_default_rule_follows_the_table_row_by_row() -> None:
    scaler = LossScaler(LossScalePolicy(window_steps=4))
    seen = []
    for _, overflowed, *_ in TABLE:
        scaler.update(overflowed)
        seen.append((scaler.scale / K, scaler.hysteresis_left))
    assert seen == [row[2] for row in TABLE]


def test_consecutive_hysteresis_follows_the_table_row_by_row() -> None:
    scaler = LossScaler(LossScalePolicy(window_steps=4, consecutive_hysteresis=True))
    seen = []
    for _, overflowed, *_ in TABLE:
        scaler.update(overflowed)
        seen.append((scaler.scale / K, scaler.hysteresis_left))
    assert seen == [row[3] for row in TABLE]


def test_grad_scaler_rule_follows_the_table_row_by_row() -> None:
    scaler = LossScaler(LossScalePolicy(window_steps=4, rule=ScaleRule.GRAD_SCALER))
    seen = []
    for _, overflowed, *_ in TABLE:
        scaler.update(overflowed)
        seen.append(scaler.scale / K)
    assert seen == [row[4] for row in TABLE]


@pytest.mark.parametrize(
    ("start", "scales"), [(4.0, [4, 2, 1]), (6.0, [6, 3, 1.5, 1])], ids=["power of two", "not"]
)
def test_overflow_at_every_step_ends_at_the_minimum(start: float, scales: list[float]) -> None:
    scaler = starting_at(start)
    seen = []
    for _ in scales:
        scaler.update(overflowed=True)
        seen.append(scaler.scale)
    assert seen == scales
    with pytest.raises(ScaleAtMinimumError) as stop:
        scaler.update(overflowed=True)
    assert (stop.value.scale, stop.value.step, stop.value.last_good_step) == (1, len(scales), None)


def test_clamping_goes_on_at_the_minimum() -> None:
    scaler = starting_at(2.0, hysteresis=1, at_minimum=AtMinimum.CLAMP)
    for _ in range(5):
        scaler.update(overflowed=True)
    assert scaler.scale == 1.0
    assert scaler.iteration == 5


def test_hysteresis_of_one_halves_at_every_overflow_and_grows_one_step_later_than_torch() -> None:
    scaler = LossScaler(LossScalePolicy(window_steps=4, hysteresis=1))
    seen = []
    for _, overflowed, *_ in TABLE:
        scaler.update(overflowed)
        seen.append(scaler.scale / K)
    assert seen == [64, 64, 64, 64, 128, 64, 32, 32, 16, 16, 16, 16, 16, 32, 16, 16]


def test_the_stop_leaves_the_position_and_names_the_last_good_step_and_the_culprit() -> None:
    scaler = starting_at(1.0, hysteresis=1)
    scaler.update(overflowed=False)
    before = scaler.state_dict()
    with pytest.raises(ProbeError) as stop:
        scaler.update(overflowed=True)
    assert scaler.state_dict() == before
    assert str(stop.value) == (
        "overflow at step 1 with the loss scale already at its minimum 1 (last good step: 0)."
        " Lower the learning rate, clip harder or train in bf16;"
        ' fp16.at_minimum = "clamp" goes on skipping instead of stopping.'
    )
    blamed = stop.value.blaming("The gradient of 'head.weight' is nan on rank 1")
    assert "(last good step: 0). The gradient of 'head.weight' is nan on rank 1. Lower" in str(
        blamed
    )


def test_a_static_scale_never_moves() -> None:
    scaler = LossScaler(LossScalePolicy(static_scale=128.0, window_steps=1, hysteresis=1))
    for overflowed in [True, True, False, False, False, True]:
        scaler.update(overflowed)
        assert scaler.scale == 128.0
    assert (scaler.iteration, scaler.last_overflow, scaler.last_good) == (6, 5, 4)


@pytest.mark.parametrize("rule", ScaleRule)
def test_growth_stops_at_what_a_float32_can_hold(rule: ScaleRule) -> None:
    scaler = LossScaler(LossScalePolicy(rule=rule, initial_scale_power=126, window_steps=1))
    for _ in range(10):
        scaler.update(overflowed=False)
    assert scaler.scale == 2.0**127 <= LARGEST_FLOAT32


@pytest.mark.parametrize("precision", Precision)
def test_only_fp16_gradients_are_scaled(precision: Precision) -> None:
    scaler = LossScaler.of(PrecisionPolicy(precision=precision))
    scaled = precision in (Precision.FP16, Precision.AMP_FP16)
    assert scaler.scale == (65536.0 if scaled else 1.0)
    assert scaler.dynamic is scaled


@settings(deadline=None)
@given(policy=policies, history=histories)
def test_the_scale_stays_a_power_of_two_within_its_bounds(policy, history) -> None:
    scaler = LossScaler(policy)
    for overflowed in history:
        before = scaler.scale
        scaler.update(overflowed)
        assert scaler.scale in (before, before / 2, before * 2)
        assert scaler.scale.hex().startswith("0x1.0000000000000p")
        assert scaler.scale >= scaler.minimum
        assert 1 <= scaler.hysteresis_left <= policy.hysteresis
        assert scaler.scale <= before if overflowed else scaler.scale >= before


@settings(deadline=None)
@given(policy=policies, before=histories, after=histories)
def test_a_loaded_scaler_goes_on_as_if_it_had_never_stopped(policy, before, after) -> None:
    whole = LossScaler(policy)
    for overflowed in before:
        whole.update(overflowed)
    resumed = LossScaler(policy)
    resumed.load_state_dict(whole.state_dict())
    for overflowed in after:
        whole.update(overflowed)
        resumed.update(overflowed)
        assert vars(resumed) == vars(whole)


def test_a_scale_made_static_on_resuming_stays_static() -> None:
    moved = LossScaler(LossScalePolicy(initial_scale_power=10))
    fixed = LossScaler(LossScalePolicy(static_scale=8.0))
    fixed.load_state_dict(moved.state_dict())
    assert fixed.scale == 8.0


@settings(deadline=None)  # the first call initialises torch
@given(window=st.integers(1, 5), power=st.integers(0, 24), history=histories)
def test_grad_scaler_rule_is_the_one_of_torch(window: int, power: int, history) -> None:
    witness = torch.amp.GradScaler("cpu", init_scale=2.0**power, growth_interval=window)
    weight = torch.zeros(1, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.0)
    ours = LossScaler(
        LossScalePolicy(rule=ScaleRule.GRAD_SCALER, initial_scale_power=power, window_steps=window)
    )
    witness.scale(torch.ones(()))  # torch makes its scale on first use
    for overflowed in history:
        weight.grad = torch.full((1,), float("inf") if overflowed else 1.0)
        witness.step(optimizer)
        witness.update()
        ours.update(overflowed)
        assert ours.scale == witness.get_scale()
