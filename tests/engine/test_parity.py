"""Stages 0 to 3 give the same parameters as plain torch, on 1 to 4 ranks."""

from typing import Any

import pytest
import torch
from torch import Tensor

import engine
from engine.config.policies import BatchPolicy, Config, ZeroPolicy
from tests.engine.models import batch_of, loss_of, make_odd, train_plainly, two_groups
from tests.engine.team import Team


def config(stage: int, **changes: Any) -> Config:
    zero = {"reduce_bucket_elements": 100, "persistence_threshold_elements": 20}
    zero.update(changes.pop("zero", {}))
    return Config(
        **{
            "batch": BatchPolicy(train=None, micro=4, accumulation_steps=1),
            "zero": ZeroPolicy(stage=stage, **zero),
            "clip_norm": 0.0,
            **changes,
        }
    )


def train(stage: int, steps: int, clip: float) -> dict[str, Tensor]:
    model = make_odd(seed=torch.distributed.get_rank() * 0)
    optimizer = torch.optim.AdamW(two_groups(model), lr=1e-2)
    trainer, *_ = engine.initialize(
        model=model, optimizer=optimizer, config=config(stage, clip_norm=clip)
    )
    for step in range(steps):
        loss = loss_of(trainer, batch_of(step, trainer.global_rank))
        trainer.backward(loss)
        trainer.step()
    values = trainer.consolidated_state_dict()
    trainer.close()
    return values


@pytest.mark.parametrize("clip", [0.0, 0.05])
@pytest.mark.parametrize("stage", [0, 1, 2, 3])
@pytest.mark.parametrize("world", [1, 2, 3, 4])
def test_same_parameters_as_plain_torch(
    teams: dict[int, Team], world: int, stage: int, clip: float
) -> None:
    expected = train_plainly(world, 10, clip=clip)
    values = teams[world].run(train, stage=stage, steps=10, clip=clip)[0]
    assert values.keys() == expected.keys()
    for name, value in expected.items():
        torch.testing.assert_close(values[name], value, rtol=1e-6, atol=1e-6, msg=name)
