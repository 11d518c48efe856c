"""Stages 0 to 3 give the same parameters as plain torch, on 1 to 4 ranks."""

import pytest
import torch
from torch import Tensor

from tests.engine.cases import config, start, train
from tests.engine.models import train_plainly
from tests.engine.team import Team


def trained(
    stage: int, steps: int, clip: float, sub_group_elements: int = 10**9
) -> dict[str, Tensor]:
    zero = {"sub_group_elements": sub_group_elements}
    trainer = start(config(stage, clip_norm=clip, zero=zero))
    train(trainer, steps)
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
    values = teams[world].run(trained, stage=stage, steps=10, clip=clip)[0]
    assert values.keys() == expected.keys()
    for name, value in expected.items():
        torch.testing.assert_close(values[name], value, rtol=1e-6, atol=1e-6, msg=name)


@pytest.mark.parametrize("stage", [0, 1, 2, 3])
def test_parameters_larger_than_what_is_updated_at_once(teams: dict[int, Team], stage: int) -> None:
    expected = train_plainly(2, 10, clip=0.0)
    arguments = {"stage": stage, "steps": 10, "clip": 0.0, "sub_group_elements": 7}
    values = teams[2].run(trained, **arguments)[0]
    for name, value in expected.items():
        torch.testing.assert_close(values[name], value, rtol=1e-6, atol=1e-6, msg=name)
