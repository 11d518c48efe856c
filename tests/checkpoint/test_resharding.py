"""A checkpoint of any world, stage and precision is one of every other."""

import itertools
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from engine.checkpoint.pieces import Holdings
from tests.checkpoint.trained import begin, train_to
from tests.engine.cases import config, start
from tests.engine.models import batch_of, loss_of
from tests.engine.team import Team

STEPS = 5

Held = tuple[list[tuple[str, int, list[float]]], dict[str, dict[str, float]]]


def held(trainer: Any) -> Held:
    """This rank's runs of elements of each whole tensor, and its numbers."""
    holdings = Holdings(
        module=trainer.module,
        stage=trainer._stage,
        update=trainer._update,
        rank=trainer.global_rank,
        world=trainer.world_size,
    )
    runs = [
        (piece.tensor, piece.start, piece.values.float().tolist()) for piece in holdings.pieces()
    ]
    numbers = {
        parameter: {name: float(value) for name, value in values.items()}
        for parameter, values in holdings.scalars.items()
    }
    return runs, numbers


def whole(everyone: list[Held]) -> tuple[dict[str, list[float]], dict[str, dict[str, float]]]:
    """Whole tensors, put together here and not by the code that is tested."""
    tensors: dict[str, list[float]] = {}
    numbers: dict[str, dict[str, float]] = {}
    for name, start_at, values in sorted(itertools.chain(*(runs for runs, _ in everyone))):
        assert len(tensors.setdefault(name, [])) == start_at, f"{name} has a hole or an overlap"
        tensors[name] += values
    for _, own in everyone:
        for parameter, values in own.items():
            assert numbers.setdefault(parameter, values) == values
    return {n: v for n, v in tensors.items() if not n.startswith("buffer.")}, numbers


def saved(setting: dict[str, Any], folder: str) -> Held:
    trainer, loader = begin(**setting)
    train_to(trainer, loader, STEPS)
    trainer.save_checkpoint(folder)
    return held(trainer)


def loaded(setting: dict[str, Any], folder: str) -> tuple[Held, list[float], int]:
    trainer, loader = begin(**{**setting, "seed": 9})
    assert trainer.load_checkpoint(folder)[0] is not None
    now = held(trainer)
    assert trainer.global_steps == STEPS
    further = train_to(trainer, loader, STEPS + 2)
    return now, [told[0] for told in further], trainer.skipped_steps


@pytest.mark.parametrize(
    ("world", "stage", "precision"),
    [
        *itertools.product([1, 3, 4], [0, 1, 2, 3], ["fp32"]),
        *itertools.product([2], [0, 1, 2, 3], ["bf16"]),
        (3, 3, "bf16"),
        (2, 3, "fp16"),
    ],
)
@pytest.mark.parametrize(
    "source", [(0, "fp32"), (1, "fp16"), (3, "fp16"), (3, "fp32")], ids=lambda s: f"{s[0]}-{s[1]}"
)
def test_two_ranks_saved_it(
    teams: dict[int, Team],
    tmp_path_factory: pytest.TempPathFactory,
    source: tuple[int, str],
    world: int,
    stage: int,
    precision: str,
    made: dict[Any, Any],
) -> None:
    if source not in made:
        folder = str(tmp_path_factory.mktemp("source"))
        setting = {"stage": source[0], "precision": source[1]}
        made[source] = folder, whole(teams[2].run(saved, setting=setting, folder=folder))
    folder, before = made[source]
    answers = teams[world].run(
        loaded, setting={"stage": stage, "precision": precision}, folder=folder
    )
    after = whole([now for now, _, _ in answers])
    frozen = "master.blocks.1.up.weight"
    exact = torch.tensor(before[0].pop(frozen, after[0][frozen]))
    rounded = torch.tensor(after[0].pop(frozen))
    assert torch.allclose(exact, rounded, rtol=0.01, atol=0.01), "frozen ones have no master"
    assert after == before
    assert all(loss == loss for _, losses, _ in answers for loss in losses)


@pytest.fixture(scope="module")
def made() -> dict[Any, Any]:
    """What was saved, made once a source."""
    return {}


def through(steps: int) -> dict[str, Tensor]:
    trainer = start(config(1))
    for step in range(steps):
        _step(trainer, step, [trainer.global_rank])
    return trainer.consolidated_state_dict()


def saved_half(steps: int, folder: str) -> None:
    trainer = start(config(1))
    for step in range(steps):
        _step(trainer, step, [trainer.global_rank])
    trainer.save_checkpoint(folder)


def second_half(first: int, steps: int, folder: str, batches: int) -> dict[str, Tensor]:
    """As many batches a step as before, on fewer ranks."""
    each = batches // torch.distributed.get_world_size()
    trainer = start(config(3, accumulation=each))
    trainer.load_checkpoint(folder)
    for step in range(first, steps):
        _step(trainer, step, [trainer.global_rank * each + part for part in range(each)])
    return trainer.consolidated_state_dict()


def _step(trainer: Any, step: int, parts: list[int]) -> None:
    for part in parts:
        trainer.backward(loss_of(trainer, batch_of(step, part)))
        trainer.step()


@pytest.mark.parametrize("world", [1, 2, 4])
def test_the_next_steps_are_those_of_a_run_that_never_stopped(
    teams: dict[int, Team], tmp_path: Path, world: int
) -> None:
    expected = teams[4].run(through, steps=6)[0]
    teams[4].run(saved_half, steps=3, folder=str(tmp_path))
    got = teams[world].run(second_half, first=3, steps=6, folder=str(tmp_path), batches=4)[0]
    for name, value in expected.items():
        assert torch.allclose(value, got[name], atol=2e-6), name
