"""What models do beyond one forward and one backward, in every stage, beside plain torch."""

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

import engine
from tests.engine.cases import config, start, train
from tests.engine.models import Block, Odd, batch_of, loss_of, two_groups
from tests.engine.team import Team

WORLD = 2
STEPS = 4
STAGES = pytest.mark.parametrize("stage", [0, 1, 2, 3])


class Checkpointed(Odd):
    """Blocks that forget their activations."""

    reentrant = False

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens)
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=self.reentrant)
        return self.head(x * self.gain)


class Reentrant(Checkpointed):
    """The older way of checkpointing: autograd inside autograd."""

    reentrant = True


class PairsOfBlocks(Odd):
    """One checkpoint over several units, with a frozen weight inside."""

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens)
        x = checkpoint(lambda y: self.blocks[1](self.blocks[0](y)), x, use_reentrant=False)
        return self.head(self.blocks[2](x) * self.gain)


class Direct(Odd):
    """Reads a weight that belongs to another module, and keeps a side output."""

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x)
        self.aside = self.blocks[0].down(x[..., :1].expand(-1, -1, 14)).square().mean()
        return functional.linear(x * self.gain, self.embed.weight) + self.aside


class Untied(Odd):
    """An embedding whose weight no backward needs, and adapters beside frozen blocks."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(7, 11)
        for block in self.blocks:
            block.up.weight.requires_grad_(False)
            block.down.weight.requires_grad_(False)


class Sometimes(Odd):
    """A block that only some ranks use in some steps, and nobody in others."""

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens)
        x = self.blocks[0](x)
        if self.training and int(tokens[0, 0]) % 3 == 0:
            x = x + self.unused(x).mean() + self.blocks[2].norm.weight.sum()
        return self.head(self.blocks[1](x) * self.gain)


class Normed(nn.Module):
    """Batch norm: buffers that follow the batches of their own rank."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(11, 6)
        self.norm = nn.BatchNorm1d(5)
        self.blocks = nn.ModuleList([Block(6), Block(6)])
        self.head = nn.Linear(6, 11)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.norm(self.embed(tokens))
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def seeded(kind: Callable[[], nn.Module]) -> nn.Module:
    torch.manual_seed(0)
    return kind()


def plainly(
    kind: Any,
    losses: Callable[[Any, int, int], list[Tensor]],
    *,
    world: int = WORLD,
    optimizer: Any,
) -> dict[str, Tensor]:
    model = seeded(kind)
    opt = optimizer(two_groups(model), lr=1e-2)
    for step in range(STEPS):
        opt.zero_grad()
        for rank in range(world):
            for loss in losses(model, step, rank):
                (loss / world).backward()
        opt.step()
    return {name: value.detach().clone() for name, value in model.state_dict().items()}


def sharded(
    stage: int, kind: Any, losses: Callable[[Any, int, int], list[Tensor]], optimizer: Any
) -> dict[str, Tensor]:
    trainer = start(config(stage), make=lambda: seeded(kind), optimizer=optimizer)
    for step in range(STEPS):
        for loss in losses(trainer, step, trainer.global_rank):
            trainer.backward(loss)
        trainer.step()
    values = trainer.consolidated_state_dict()
    trainer.close()
    return values


def compare(
    teams: dict[int, Team],
    stage: int,
    kind: Any,
    losses: Callable[[Any, int, int], list[Tensor]],
    *,
    world: int = WORLD,
    optimizer: Any = torch.optim.AdamW,
    but: tuple[str, ...] = (),
) -> None:
    expected = plainly(kind, losses, world=world, optimizer=optimizer)
    values = teams[world].run(sharded, stage=stage, kind=kind, losses=losses, optimizer=optimizer)[
        0
    ]
    for name, value in expected.items():
        if not name.endswith(but or "-"):
            torch.testing.assert_close(values[name], value, rtol=1e-5, atol=2e-6, msg=name)


def one_loss(model: Any, step: int, rank: int) -> list[Tensor]:
    return [loss_of(model, batch_of(step, rank))]


def two_forwards(model: Any, step: int, rank: int) -> list[Tensor]:
    first, second = batch_of(step, rank), batch_of(step + 100, rank)
    evaluate(model, first)
    both = loss_of(model, first) + 0.5 * loss_of(model, second)
    evaluate(model, second)
    return [both]


def evaluate(model: Any, tokens: Tensor) -> None:
    with torch.no_grad(), warnings.catch_warnings():
        # Reentrant checkpointing warns where no gradient is wanted.
        warnings.simplefilter("ignore")
        for length in range(1, 4):
            model(tokens[:1, :length])


def two_backwards(model: Any, step: int, rank: int) -> list[Tensor]:
    return [loss_of(model, batch_of(step + 100 * k, rank)) for k in range(2)]


@STAGES
@pytest.mark.parametrize("kind", [Checkpointed, Reentrant, PairsOfBlocks, Direct, Untied])
def test_models_that_do_unusual_things(teams: dict[int, Team], stage: int, kind: Any) -> None:
    compare(teams, stage, kind, one_loss)


@STAGES
@pytest.mark.parametrize("kind", [Odd, Reentrant])
def test_several_forwards_before_one_backward(
    teams: dict[int, Team], stage: int, kind: Any
) -> None:
    compare(teams, stage, kind, two_forwards)


@STAGES
def test_several_backwards_before_one_step(teams: dict[int, Team], stage: int) -> None:
    compare(teams, stage, Odd, two_backwards)


@pytest.mark.parametrize("stage", [0, 1, 2])
@pytest.mark.parametrize("world", [2, 3])
def test_parameters_used_by_some_ranks_in_some_steps(
    teams: dict[int, Team], stage: int, world: int
) -> None:
    compare(teams, stage, Sometimes, one_loss, world=world)


@STAGES
def test_batch_norm(teams: dict[int, Team], stage: int) -> None:
    running = ("running_mean", "running_var", "num_batches_tracked")
    compare(teams, stage, Normed, one_loss, but=running)


@STAGES
@pytest.mark.parametrize("optimizer", ["SGD", "Adagrad", "Lion", "RMSprop", "NAdam"])
def test_any_elementwise_optimizer(teams: dict[int, Team], stage: int, optimizer: str) -> None:
    from engine.optimizers import Lion

    chosen = Lion if optimizer == "Lion" else getattr(torch.optim, optimizer)
    compare(teams, stage, Odd, one_loss, optimizer=chosen)


def accumulated(stage: int, parts: int, quietly: bool, fp32: bool) -> dict[str, Tensor]:
    trainer = start(config(stage, accumulation=parts, accumulate_in_fp32=fp32))
    for step in range(STEPS):
        whole = batch_of(step, trainer.global_rank, size=4)
        for number, tokens in enumerate(whole.split(4 // parts)):
            loss = loss_of(trainer, tokens)
            if quietly and number < parts - 1:
                with trainer.no_sync():
                    trainer.backward(loss)
            else:
                trainer.backward(loss)
            assert trainer.is_gradient_accumulation_boundary() == (number == parts - 1)
            trainer.step()
    assert trainer.global_steps == STEPS
    values = trainer.consolidated_state_dict()
    trainer.close()
    return values


@STAGES
@pytest.mark.parametrize(("quietly", "fp32"), [(False, False), (True, True)])
def test_micro_batches_equal_one_batch(
    teams: dict[int, Team], stage: int, quietly: bool, fp32: bool
) -> None:
    whole, parts = (
        teams[WORLD].run(accumulated, stage=stage, parts=k, quietly=quietly, fp32=fp32)[0]
        for k in (1, 4)
    )
    for name, value in whole.items():
        torch.testing.assert_close(parts[name], value, rtol=1e-5, atol=2e-6, msg=name)


def averaged(stage: int, changes: dict[str, Any]) -> dict[str, Tensor]:
    trainer = start(config(stage, **changes))
    train(trainer, STEPS)
    values = trainer.consolidated_state_dict()
    trainer.close()
    return values


@STAGES
def test_ways_of_averaging_agree(teams: dict[int, Team], stage: int) -> None:
    usual = teams[3].run(averaged, stage=stage, changes={})[0]
    for changes in ({"prescale_gradients": True}, {"predivide_factor": 2.0}):
        other = teams[3].run(averaged, stage=stage, changes=changes)[0]
        for name, value in usual.items():
            torch.testing.assert_close(other[name], value, rtol=1e-5, atol=2e-6)
    rounded = teams[3].run(averaged, stage=stage, changes={"communication": "bf16"})[0]
    assert any(not torch.equal(rounded[name], usual[name]) for name in usual)
    for name, value in usual.items():
        torch.testing.assert_close(rounded[name], value, rtol=0.2, atol=0.02)


def made_sharded(how: str, stage: int) -> tuple[dict[str, Tensor], int]:
    torch.manual_seed(0)
    biggest = 0
    if how == "sharded":
        with engine.sharded_init(open_elements=120):
            model = Odd()
            for block in model.blocks:
                block.up.weight.data.mul_(0.5)
                assert block.down.weight.shape == (7, 14)
            nn.init.ones_(model.blocks[0].norm.weight)
        biggest = sum(p.untyped_storage().nbytes() for p in model.parameters())
    elif how == "meta":
        with torch.device("meta"):
            model = Odd()
        model.gain = nn.Parameter(torch.ones(1))
    else:
        model = Odd()
        for block in model.blocks:
            block.up.weight.data.mul_(0.5)
    trainer, *_ = engine.initialize(
        model=model,
        optimizer=torch.optim.AdamW(two_groups_of(model), lr=1e-2),
        config=config(stage),
    )
    train(trainer, 3)
    values = trainer.consolidated_state_dict()
    trainer.close()
    return values, biggest


def two_groups_of(model: nn.Module) -> list[dict[str, Any]]:
    trained = [p for p in model.parameters() if p.requires_grad]
    return [{"params": trained, "weight_decay": 0.1}]


@pytest.mark.parametrize("stage", [0, 3])
def test_a_model_made_sharded_is_the_same_model(teams: dict[int, Team], stage: int) -> None:
    whole = teams[3].run(made_sharded, how="whole", stage=stage)[0][0]
    for values, biggest in teams[3].run(made_sharded, how="sharded", stage=stage)[:1]:
        assert biggest == 0
        for name, value in whole.items():
            torch.testing.assert_close(values[name], value, rtol=1e-6, atol=1e-6, msg=name)
    values, _ = teams[3].run(made_sharded, how="meta", stage=stage)[0]
    assert all(bool(value.isfinite().all()) for value in values.values())
    assert {k: v.shape for k, v in values.items()} == {k: v.shape for k, v in whole.items()}
