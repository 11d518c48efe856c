"""A checkpoint does not depend on where states and weights rested when it was saved or loaded."""

from pathlib import Path
from typing import Any

import pytest

from tests.checkpoint.trained import begin, train_to, weights
from tests.engine.team import Team
from tests.offload.offloaded import PLACES, policies

STEPS = 4


def _begun(stage: int, place: str, disk: str, **changes: Any) -> tuple[Any, Any]:
    return begin(stage, "bf16", zero={"sub_group_elements": 40}, **policies(place, disk), **changes)


def went_on(
    stage: int, before: str, after: str, disk: str, folder: str
) -> tuple[list[Any], dict[str, list[Any]]]:
    """Losses and weights after a stop in the middle, with states resting elsewhere from then on."""
    trainer, loader = _begun(stage, before, disk)
    train_to(trainer, loader, STEPS)
    trainer.save_checkpoint(folder)
    trainer.close()
    trainer, loader = _begun(stage, after, disk, seed=9)
    assert trainer.load_checkpoint(folder)[0] is not None
    told = train_to(trainer, loader, 2 * STEPS)
    return told, weights(trainer)


@pytest.mark.parametrize(
    ("stage", "before", "after"),
    [
        (1, "none", "optimizer to disk"),
        (2, "optimizer to disk", "optimizer to host"),
        (3, "optimizer to host", "all to disk"),
        (3, "all to disk", "none"),
        (3, "parameters to disk", "parameters to disk"),
    ],
)
def test_states_may_rest_elsewhere_after_a_stop(
    teams: dict[int, Team], tmp_path: Path, stage: int, before: str, after: str
) -> None:
    assert {before, after} <= set(PLACES)
    disk = tmp_path / "disk"
    disk.mkdir()
    expected = teams[2].run(
        went_on,
        stage=stage,
        before="none",
        after="none",
        disk=str(disk),
        folder=str(tmp_path / "a"),
    )
    got = teams[2].run(
        went_on,
        stage=stage,
        before=before,
        after=after,
        disk=str(disk),
        folder=str(tmp_path / "b"),
    )
    assert got == expected
