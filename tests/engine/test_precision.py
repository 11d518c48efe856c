"""Loss scaling, skipping and 16-bit training, in every stage."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import engine
from engine.config.policies import AtMinimum, LossScalePolicy, ScaleRule
from engine.loss_scale import ScaleAtMinimumError
from probe.schema.vocabulary import NonFinite, Precision
from tests.engine.cases import config, everything, start, train
from tests.engine.models import batch_of, loss_of
from tests.engine.team import Team


def at_scale(stage: int, scale: float) -> tuple[list[float], dict[str, Tensor]]:
    policy = LossScalePolicy(static_scale=scale)
    trainer = start(config(stage, precision=Precision.FP16, scale=policy, clip_norm=0.1))
    losses = train(trainer, 5)
    assert trainer.skipped_steps == 0
    values = trainer.consolidated_state_dict(torch.float32)
    trainer.close()
    return losses, values


@pytest.mark.parametrize("stage", [0, 1, 2, 3])
def test_a_power_of_two_scale_changes_no_bit(teams: dict[int, Team], stage: int) -> None:
    # Gradients below fp16's normal range round, so the smaller scale is 2^10 and not 1.
    losses, values = teams[2].run(at_scale, stage=stage, scale=2.0**10)[0]
    other_losses, other_values = teams[2].run(at_scale, stage=stage, scale=2.0**13)[0]
    assert losses == other_losses
    for name, value in values.items():
        assert torch.equal(value, other_values[name]), name


def one_rank_overflows(
    stage: int, precision: Precision, bad_rank: int, one_element: bool = False
) -> dict[str, Any]:
    trainer = start(
        config(
            stage,
            precision=precision,
            scale=LossScalePolicy(initial_scale_power=4, hysteresis=1),
        )
    )
    schedule = torch.optim.lr_scheduler.StepLR(trainer.optimizer, step_size=1, gamma=0.5)
    trainer.lr_scheduler = schedule
    train(trainer, 2)
    before, rates = everything(trainer), trainer.get_lr()
    loss = loss_of(trainer, batch_of(2, trainer.global_rank))
    if trainer.global_rank == bad_rank:
        # One element has one owner: no other rank sees anything bad in its slice.
        one = trainer.module.blocks[0].norm.bias[0].float() * float("inf")
        loss = loss + one if one_element else loss * float("inf")
    trainer.backward(loss)
    trainer.step()
    unchanged = all(
        torch.equal(one, other) for one, other in zip(before, everything(trainer), strict=True)
    )
    facts = {
        "unchanged": unchanged and rates == trainer.get_lr(),
        "applied": trainer.was_step_applied(),
        "counts": (trainer.global_steps, trainer.skipped_steps),
        "scale": trainer.loss_scale,
        "offenders": trainer.last_overflow.offenders,
    }
    losses = train(trainer, 2, first=3)
    facts["goes on"] = trainer.was_step_applied() and all(
        map(torch.isfinite, map(torch.tensor, losses))
    )
    trainer.close()
    return facts


@pytest.mark.parametrize("precision", [Precision.FP32, Precision.FP16, Precision.BF16])
@pytest.mark.parametrize("stage", [0, 1, 2, 3])
def test_overflow_on_one_rank_skips_on_all_and_is_attributed(
    teams: dict[int, Team], stage: int, precision: Precision
) -> None:
    for world, bad_rank in ((2, 1), (3, 0)):
        results = teams[world].run(
            one_rank_overflows, stage=stage, precision=precision, bad_rank=bad_rank
        )
        for facts in results:
            assert facts["unchanged"]
            assert not facts["applied"]
            assert facts["counts"] == (3, 1)
            assert facts["goes on"]
            assert facts["scale"] == (8.0 if precision is Precision.FP16 else 1.0)
            assert {bad.rank for bad in facts["offenders"]} == {bad_rank}
            assert facts["offenders"][0].name == "gain"
            assert isinstance(facts["offenders"][0].kind, NonFinite)
        assert results[0]["offenders"] == results[1]["offenders"]


@pytest.mark.parametrize("stage", [0, 1, 2, 3])
def test_one_bad_element_of_one_owner_skips_on_all(teams: dict[int, Team], stage: int) -> None:
    results = teams[3].run(
        one_rank_overflows, stage=stage, precision=Precision.BF16, bad_rank=2, one_element=True
    )
    for facts in results:
        assert facts["unchanged"] and not facts["applied"] and facts["goes on"]
        (bad,) = facts["offenders"]
        assert (bad.name, bad.rank, bad.kind) == ("blocks.0.norm.bias", 2, NonFinite.INF)


class Straight(nn.Module):
    """One weight whose gradient is its input: arithmetic that one can do in the head."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(3))

    def forward(self, x: Tensor) -> Tensor:
        return (x * self.weight).sum()


def growing(stage: int) -> list[tuple[float, Tensor]]:
    model = Straight()
    policy = LossScalePolicy(initial_scale_power=2, window_steps=1, hysteresis=1)
    trainer, *_ = engine.initialize(
        model=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=1.0),
        config=config(stage, precision=Precision.FP16, scale=policy),
    )
    seen = []
    for _ in range(5):
        trainer.backward(trainer(torch.ones(3)))
        trainer.step()
        weights = trainer.consolidated_state_dict(torch.float32)
        seen.append((trainer.loss_scale, weights.get("weight")))
    trainer.close()
    return seen


@pytest.mark.parametrize("stage", [0, 1, 2, 3])
def test_gradients_are_unscaled_by_the_scale_they_were_scaled_with(
    teams: dict[int, Team], stage: int
) -> None:
    seen = teams[2].run(growing, stage=stage)[0]
    assert [scale for scale, _ in seen] == [4, 8, 16, 32, 64]
    for step, (_, weight) in enumerate(seen):
        assert torch.equal(weight, torch.full((3,), -1.0 - step))


def stuck(stage: int, at_minimum: AtMinimum) -> str:
    policy = LossScalePolicy(initial_scale_power=0, hysteresis=1, at_minimum=at_minimum)
    trainer = start(config(stage, precision=Precision.FP16, scale=policy))
    train(trainer, 2)
    loss = loss_of(trainer, batch_of(2, trainer.global_rank))
    factor = float("nan") if trainer.global_rank == 1 else 1.0
    try:
        trainer.backward(loss * factor)
        trainer.step()
    except ScaleAtMinimumError as error:
        return str(error)
    finally:
        trainer.close()
    return f"went on at scale {trainer.loss_scale:g}"


def test_a_scale_at_its_minimum_stops_with_a_diagnosis(teams: dict[int, Team]) -> None:
    for text in teams[2].run(stuck, stage=2, at_minimum=AtMinimum.STOP):
        assert "gain: nan on rank 1" in text
        assert "last good step: 1" in text
    clamped = teams[2].run(stuck, stage=2, at_minimum=AtMinimum.CLAMP)
    assert clamped == ["went on at scale 1"] * 2


def losses(stage: int, precision: Precision) -> list[float]:
    rule = ScaleRule.GRAD_SCALER if precision is Precision.AMP_FP16 else ScaleRule.ZERO
    trainer = start(
        config(stage, precision=precision, scale=LossScalePolicy(initial_scale_power=8, rule=rule))
    )
    out = train(trainer, 8)
    trainer.close()
    return out


@pytest.mark.parametrize("precision", [p for p in Precision if p is not Precision.FP32])
def test_every_precision_follows_fp32_in_every_stage(
    teams: dict[int, Team], precision: Precision
) -> None:
    exact = teams[2].run(losses, stage=0, precision=Precision.FP32)[0]
    for stage in range(4):
        rounded = teams[2].run(losses, stage=stage, precision=precision)[0]
        assert rounded == pytest.approx(exact, rel=0.02), f"stage {stage}"
        assert rounded != exact
