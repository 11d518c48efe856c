"""Ranks that fall out of step: an error that says which rank and what, in seconds."""

import os
from typing import Any

import pytest
import torch
from torch import Tensor

import engine
from engine.failures import OptimizerNotElementwiseError, OrderError, PeerLostError
from probe.errors import ProbeError, UsageError
from tests.engine.cases import config, start, train
from tests.engine.models import Odd, make_odd
from tests.engine.team import Team

STAGES = pytest.mark.parametrize("stage", [0, 1, 2, 3])


def uneven(stage: int) -> str:
    trainer = start(config(stage))
    try:
        train(trainer, 2 + trainer.global_rank)
    except ProbeError as error:
        return f"{type(error).__name__}: {error}"
    finally:
        trainer.close()
    return "fine"


@STAGES
def test_uneven_numbers_of_batches(teams: dict[int, Team], stage: int) -> None:
    short, long = teams[2].run(uneven, stage=stage)
    assert short == "fine"
    assert long.startswith(PeerLostError.__name__)
    assert "rank 0 ended its part in step 2" in long
    assert "rank 1 waited in" in long
    assert "same number of batches" in long


def dying(stage: int) -> str:
    trainer = start(config(stage))
    train(trainer, 2)
    if trainer.global_rank == 1:
        os._exit(9)
    try:
        train(trainer, 5, first=2)
    except PeerLostError as error:
        return str(error)
    return "fine"


@pytest.mark.parametrize("stage", [1, 3])
def test_a_rank_that_dies(stage: int) -> None:
    team = Team(2)
    try:
        (healthy, text), (survived, _) = team.outcomes(dying, stage=stage)
    finally:
        team.stop()
    assert healthy and not survived
    assert "rank 1 is gone without a word" in text
    assert "rank 0 waited in" in text
    assert "in step 2" in text


class Wandering(Odd):
    """Runs its blocks in another order on rank 1."""

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens)
        order = [0, 1, 2]
        if self.training and torch.distributed.get_rank() == 1:
            order = [0, 2, 1]
        for at in order:
            x = self.blocks[at](x)
        return self.head(x * self.gain)


def wandering(stage: int) -> str:
    trainer = start(config(stage), make=Wandering)
    try:
        train(trainer, 2)
    except ProbeError as error:
        return f"{type(error).__name__}: {error}"
    finally:
        trainer.close()
    return "fine"


def test_an_order_that_differs_between_ranks(teams: dict[int, Team]) -> None:
    texts = teams[2].run(wandering, stage=3)
    told = [text for text in texts if text.startswith(OrderError.__name__)]
    assert told, texts
    assert "rank 0" in told[0] and "rank 1" in told[0]
    assert "blocks.1" in told[0] and "blocks.2" in told[0]
    assert teams[2].run(wandering, stage=1) == ["fine", "fine"]


def misused() -> list[str]:
    told = []

    def note(action: Any) -> None:
        with pytest.raises(UsageError) as caught:
            action()
        told.append(str(caught.value))

    trainer = start(config(2))
    note(trainer.step)
    note(lambda: trainer.backward(torch.ones(2, 3, requires_grad=True)))
    note(lambda: trainer.backward(3.0))
    train(trainer, 1)
    note(trainer.step)
    trainer.close()
    model = make_odd()
    note(lambda: engine.initialize(model=model))
    note(lambda: engine.initialize(config=config(0)))
    return told


def test_misuse_is_told_with_the_rank(teams: dict[int, Team]) -> None:
    for rank, told in enumerate(teams[2].run(misused)):
        assert told[0].startswith(f"rank {rank}: step() without backward() in step 0")
        assert told[1].startswith(
            f"rank {rank}: backward needs a loss of one number, got shape (2, 3)"
        )
        assert "got float" in told[2]
        assert "in step 1" in told[3]
        assert "configuration" in told[4]
        assert "model" in told[5]


class RowScaled(torch.optim.SGD):
    """Looks at a whole tensor, and says so nowhere."""

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    parameter.sub_(parameter.grad / parameter.grad.norm(), alpha=group["lr"])


class Signed(torch.optim.Optimizer):
    """Element-wise, and unknown."""

    def __init__(self, params: Any, lr: float) -> None:
        super().__init__(params, {"lr": lr})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    parameter.sub_(parameter.grad.sign(), alpha=group["lr"])


def refused() -> list[str]:
    told = []
    for make in (
        lambda p: torch.optim.Muon([q for q in p if q.dim() == 2 and q.requires_grad]),
        lambda p: torch.optim.Adafactor(p),
        lambda p: RowScaled(p, lr=0.1),
    ):
        model = make_odd()
        try:
            engine.initialize(
                model=model, optimizer=make(list(model.parameters())), config=config(1)
            )
        except OptimizerNotElementwiseError as error:
            told.append(str(error))
    model = make_odd()
    trainer, *_ = engine.initialize(
        model=model, optimizer=Signed(model.parameters(), lr=0.01), config=config(1)
    )
    train(trainer, 2)
    trainer.close()
    return told


def test_optimizers_that_see_whole_tensors_are_refused(teams: dict[int, Team]) -> None:
    (told,) = teams[1].run(refused)
    assert [text.split()[1] for text in told] == ["Muon", "Adafactor", "RowScaled"]
    assert "orthogonalises" in told[0]
    assert "two halves" in told[2]
