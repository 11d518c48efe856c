"""Rules on scale, skips and range: each fires on a run with its cause, and on no other."""

import pytest

from probe.analyse.findings.finding import GainKind, View
from probe.schema.rows import OverflowRow
from probe.schema.vocabulary import NonFinite, Precision, TensorRole
from tests.analyse.made_run import (
    OVERFLOW_OF_STEP,
    configured,
    everywhere,
    found,
    in_steps,
    named,
    only,
    settings_of,
)

BF16 = configured(precision=Precision.BF16)


def test_scale_at_minimum():
    def falls(step, rank):
        """2^16 to 1 in steps 0 to 16, where it overflows on."""
        scale = max(1.0, 65536.0 / 2**step)
        return {**OVERFLOW_OF_STEP, "loss_scale": scale, "loss_scale_next": max(1.0, scale / 2)}

    finding = only("scale-at-minimum", steps=falls)
    assert named(finding)["minimum scale"] == "1"
    assert finding.gain.share == 1.0
    assert settings_of(finding)[0] == "--bf16"
    assert (finding.link.view, finding.link.first_step) == (View.PRECISION, 0)


def test_the_floor_of_the_scale_is_the_one_that_was_set():
    floor = configured(settings={"precision.loss_scale.minimum_scale": 4096.0})

    def at_floor(step, rank):
        scale = {"loss_scale": 4096.0, "loss_scale_next": 4096.0}
        return {**scale, **(OVERFLOW_OF_STEP if step == 40 else {})}

    assert "scale-at-minimum" in found(floor, steps=at_floor)
    assert "scale-at-minimum" not in found(steps=at_floor)
    fixed = configured(settings={"precision.loss_scale.static_scale": 4096.0})
    assert found(fixed, steps=at_floor) == {}


def test_scale_thrashing():
    thrash = in_steps(30, 36, 42, 48, **OVERFLOW_OF_STEP)
    finding = only("scale-thrashing", steps=thrash)
    assert finding.title == "6.7 % of the steps after start-up overflow, in 4 streaks."
    assert settings_of(finding) == ["--bf16", "fp16.loss_scale_window: 4000"]
    assert finding.gain.share == pytest.approx(4 / 60)
    assert (finding.link.first_step, finding.link.last_step) == (30, 48)
    livelock = configured(settings={"precision.loss_scale.consecutive_hysteresis": True})
    finding = only("scale-thrashing", livelock, steps=thrash)
    assert settings_of(finding)[0] == "fp16.consecutive_hysteresis: false"


def test_feeling_for_the_scale_now_and_then_is_no_thrashing():
    assert found(steps=in_steps(30, 48, **OVERFLOW_OF_STEP)) == {}
    assert found(count=200, steps=in_steps(50, 100, 150, **OVERFLOW_OF_STEP)) == {}


def starting_at(scales):
    """Overflows at these scales, then 2^12 for good."""

    def steps(step, rank):
        if step < len(scales):
            return {**OVERFLOW_OF_STEP, "loss_scale": scales[step]}
        return {"loss_scale": 4096.0}

    return steps


def test_initial_scale_too_high():
    high = starting_at([65536.0, 65536.0, 32768.0, 16384.0, 8192.0])
    finding = only("initial-scale-too-high", steps=high)
    assert settings_of(finding) == ["fp16.initial_scale_power: 12"]
    assert named(finding)["settled at"] == "2^12"
    assert finding.gain.share == pytest.approx(5 / 60)
    assert found(steps=starting_at([])) == {}
    assert found(steps=starting_at([8192.0, 8192.0])) == {}  # that is what feeling for it costs


def test_the_recommended_scale_leaves_the_headroom_that_was_sampled():
    tight = everywhere(largest_magnitude=65504.0 * 0.9, loss_scale=1024.0)
    high = starting_at([65536.0] * 3)
    finding = only("initial-scale-too-high", steps=high, numerics=tight)
    assert settings_of(finding) == ["fp16.initial_scale_power: 10"]


def offender(step, name):
    return OverflowRow(
        step=step, role=TensorRole.GRADIENT, kind=NonFinite.INF, parameter=name, first=True
    )


def test_overflow_in_one_tensor():
    def always_the_head(step, rank):
        return [offender(step, "head.weight")] if step in (30, 40, 50) and rank == 1 else []

    finding = only("overflow-in-one-tensor", more=always_the_head)
    assert named(finding)["tensor"] == "head.weight (gradient)"
    assert named(finding)["ranks"] == "1"
    assert (finding.link.first_step, finding.link.last_step) == (30, 50)

    def each_time_another(step, rank):
        return [offender(step, f"layer.{step}")] if step % 9 == 0 else []

    assert found(more=each_time_another) == {}


def test_bf16_advisable():
    vanishing = everywhere(underflow_elements=30)
    finding = only("bf16-advisable", numerics=vanishing)
    assert finding.title == "3.0 % of the gradient elements vanish in fp16."
    assert settings_of(finding) == ["--bf16"]
    assert finding.gain.kind is GainKind.TRUST
    assert found(BF16, numerics=vanishing) == {}


def test_silent_skips():
    def bad(step, rank):
        return OVERFLOW_OF_STEP if step == 33 and rank == 2 else {}

    finding = only("silent-skips", BF16, steps=bad)
    assert named(finding)["skipped"] == "1 of 60"
    assert finding.link.first_step == 33
    assert found(steps=bad) == {}  # in fp16 one overflow is nothing


def test_clip_rate():
    bound = everywhere(clip_coefficient=0.25)
    finding = only("clip-rate", steps=bound)
    assert named(finding)["clipped"] == "60 of 60 steps"
    assert settings_of(finding) == ["--lr", "--clip 4"]
    assert found(steps=in_steps(*range(0, 60, 3), clip_coefficient=0.25)) == {}
    assert found(count=15, steps=bound) == {}
