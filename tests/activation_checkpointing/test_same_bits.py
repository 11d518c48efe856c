"""Computing blocks again changes no bit, in any stage and precision."""

import copy
import time
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import engine
from engine.config.policies import ActivationPolicy
from probe.errors import UsageError
from probe.schema.vocabulary import Precision
from tests.activation_checkpointing.noisy import DEPTH, WIDTH, Stack, begin, loss
from tests.engine.cases import config
from tests.engine.team import Team

STAGES = pytest.mark.parametrize("stage", [0, 1, 2, 3])


def trained(
    stage: int, precision: Precision, every: int, to_host: bool = False
) -> tuple[list[float], dict[str, Tensor], int, bool]:
    trainer = begin(stage, precision, every, to_host=to_host)
    calls = 0

    def count(*_: Any) -> None:
        nonlocal calls
        calls += 1

    for block in trainer.module.blocks:
        block.down.register_forward_hook(count)
    losses = []
    for number in range(4):
        value = loss(trainer, number)
        trainer.backward(value)
        trainer.step()
        losses.append(float(value.detach()))
    # Two forwards, a look in between, and one backward.
    first = loss(trainer, 10)
    with torch.no_grad():
        trainer.eval()
        losses.append(float(loss(trainer, 11)))
        trainer.train()
    trainer.backward(first + loss(trainer, 12))
    trainer.step()
    weights = trainer.consolidated_state_dict()
    drawn = torch.rand(4)
    trainer.close()
    return losses, weights, calls, bool(torch.equal(drawn, torch.rand(4)))


@STAGES
@pytest.mark.parametrize("precision", list(Precision))
def test_the_same_losses_and_weights(
    teams: dict[int, Team], stage: int, precision: Precision
) -> None:
    arguments = {"stage": stage, "precision": precision}
    plain = teams[2].run(trained, every=0, **arguments)
    for changes in ({"every": 1}, {"every": 2}, {"every": 1, "to_host": True}):
        forgetful = teams[2].run(trained, **changes, **arguments)
        for with_all, without in zip(plain, forgetful, strict=True):
            assert with_all[0] == without[0]
            assert with_all[1].keys() == without[1].keys()
            for name, value in with_all[1].items():
                assert torch.equal(value, without[1][name]), name
        forwards = 7 * DEPTH
        again = 6 * (DEPTH // changes["every"])
        assert plain[0][2] == forwards
        assert forgetful[0][2] == forwards + again, "a look without gradients is not repeated"


class Reader(Stack):
    """The blocks' own weights, read from outside while a second forward needs them too."""

    def forward(self, tokens: Tensor) -> Tensor:
        aside = sum(block.down.weight.square().mean() for block in self.blocks)
        return super().forward(tokens) + 1e-3 * aside


def read_from_outside(stage: int, every: int) -> dict[str, Tensor]:
    trainer = begin(stage, Precision.FP32, every, make=Reader)
    transport = trainer.collectives._transport
    gather = transport.all_gather

    def gather_late(*arguments: Any) -> Any:
        if trainer.global_rank == 1:
            time.sleep(0.01)  # What is fetched ahead is still on its way when it is read.
        return gather(*arguments)

    transport.all_gather = gather_late
    for number in range(3):
        trainer.backward(loss(trainer, number))
        trainer.step()
    weights = trainer.consolidated_state_dict()
    trainer.close()
    return weights


def test_weights_that_others_read_too(teams: dict[int, Team]) -> None:
    plain = teams[2].run(read_from_outside, stage=0, every=0)[0]
    for every in (0, 1):
        values = teams[2].run(read_from_outside, stage=3, every=every)[0]
        for name, value in plain.items():
            torch.testing.assert_close(values[name], value, rtol=1e-6, atol=1e-6, msg=name)


def test_names_hooks_and_copies_are_those_of_the_plain_model() -> None:
    trainer = begin(1, Precision.FP32, 1)
    assert list(trainer.module.state_dict()) == list(Stack().state_dict())
    met = []
    trainer.module.blocks[0].register_forward_hook(lambda *_: met.append(1))
    trainer.backward(loss(trainer, 0))
    assert met == [1], "the hook of a block runs once a forward"
    trainer.close()


def test_a_copied_model_computes_with_its_own_weights() -> None:
    trainer = begin(1, Precision.FP32, 1)
    twin = copy.deepcopy(trainer.module)
    with torch.no_grad():
        for parameter in twin.blocks[0].down.parameters():
            parameter.zero_()
    x = torch.rand(2, 3, WIDTH, requires_grad=True)
    assert torch.equal(twin.blocks[0](x, gain=twin.gain)[0], x)
    assert not torch.equal(trainer.module.blocks[0](x, gain=twin.gain)[0], x)
    trainer.close()


def test_a_model_without_such_a_block_is_told() -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 1))
    with pytest.raises(UsageError, match="chooses none of the 0 repeated blocks of Sequential"):
        engine.initialize(
            model=model,
            optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
            config=config(0, activations=ActivationPolicy(every_block=1)),
        )
