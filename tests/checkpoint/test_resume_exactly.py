"""A run that was stopped and resumed is the run that never stopped, bit for bit."""

from pathlib import Path
from typing import Any

import pytest

from engine.config.policies import OffloadPolicy
from probe.schema.vocabulary import Tier
from tests.checkpoint.trained import begin, train_to, weights
from tests.engine.team import Team

STOP, END = 7, 14
"""In the middle of the second epoch of a world of two, and in its third."""


def uninterrupted(setting: dict[str, Any]) -> Any:
    trainer, loader = begin(**setting)
    # In one go: an iteration that is left begins the next epoch.
    rest = train_to(trainer, loader, END)[STOP:]
    return rest, weights(trainer), trainer.skipped_steps, trainer.lr_scheduler.state_dict()


def interrupted(
    setting: dict[str, Any], folder: str, asynchronous: bool, then: dict[str, Any] | None = None
) -> Any:
    trainer, loader = begin(**setting)
    train_to(trainer, loader, STOP)
    trainer.save_checkpoint(folder, client_state={"at": STOP}, asynchronous=asynchronous)
    # What happens after the save is not in it.
    train_to(trainer, loader, STOP + 2)
    trainer.close()
    trainer, loader = begin(**{**(then or setting), "seed": 5})
    path, client_state = trainer.load_checkpoint(folder)
    assert path == f"{folder}/global_step{STOP}" and client_state == {"at": STOP}
    assert trainer.global_steps == STOP
    rest = train_to(trainer, loader, END)
    return rest, weights(trainer), trainer.skipped_steps, trainer.lr_scheduler.state_dict()


@pytest.mark.parametrize("stage", [0, 1, 2, 3])
@pytest.mark.parametrize("precision", ["fp32", "fp16", "bf16", "amp_fp16"])
def test_it_goes_on_as_if_nothing_had_been(
    teams: dict[int, Team], tmp_path: Path, stage: int, precision: str
) -> None:
    setting = {"stage": stage, "precision": precision}
    through = teams[2].run(uninterrupted, setting=setting)
    resumed = teams[2].run(
        interrupted, setting=setting, folder=str(tmp_path), asynchronous=stage % 2 == 1
    )
    assert resumed == through
    if precision == "fp16":
        assert 0 < through[0][2] < END - STOP, "the scale was to move, and steps to be applied"


@pytest.mark.parametrize("world", [1, 3])
def test_on_other_numbers_of_ranks_and_from_slices(
    teams: dict[int, Team], tmp_path: Path, world: int
) -> None:
    setting = {"stage": 3, "precision": "bf16", "sharded": True}
    through = teams[world].run(uninterrupted, setting=setting)
    resumed = teams[world].run(
        interrupted, setting=setting, folder=str(tmp_path), asynchronous=False
    )
    assert resumed == through


@pytest.mark.parametrize(
    ("before", "after"), [("disk", "disk"), ("disk", "device"), ("device", "disk")]
)
def test_states_that_rest_elsewhere(
    teams: dict[int, Team], tmp_path: Path, before: str, after: str
) -> None:
    def resting(tier: str, name: str) -> dict[str, Any]:
        (tmp_path / name).mkdir()
        policy = OffloadPolicy(tier=Tier(tier), disk_path=str(tmp_path / name))
        return {"stage": 3, "precision": "bf16", "offload_optimizer": policy}

    through = teams[2].run(uninterrupted, setting=resting(after, "through"))
    resumed = teams[2].run(
        interrupted,
        setting=resting(before, "before"),
        folder=str(tmp_path),
        asynchronous=True,
        then=resting(after, "after"),
    )
    assert resumed == through
