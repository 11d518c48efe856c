"""What is recorded changes nothing: losses and weights are the same to the last bit without."""

import hashlib
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from engine.config.policies import LossScalePolicy
from probe.schema.documents import ProfileWindow
from probe.schema.vocabulary import Precision
from tests.engine.cases import config, everything
from tests.engine.team import Team
from tests.telemetry.recorded import begin, micro_batch, recording_into

STEPS = 12


def trained(run_dir: str | None, stage: int, precision: Precision) -> dict[str, Any]:
    window = ProfileWindow(first_step=3, end_step=5, ranks=[1])
    around = (
        nullcontext()
        if run_dir is None
        else recording_into(run_dir, numerics_every=2, profile=window)
    )
    with around:
        # A scale so high that it overflows at first: the closer look after that is under test too.
        scale = LossScalePolicy(initial_scale_power=22, hysteresis=1)
        trainer = begin(
            config(stage, precision=precision, accumulation=2, scale=scale, clip_norm=0.5)
        )
        losses = [micro_batch(trainer, number) for number in range(2 * STEPS)]
        digest = hashlib.sha256()
        for tensor in everything(trainer):
            digest.update(tensor.float().numpy().tobytes())
        facts = {
            "losses": losses,
            "state": digest.hexdigest(),
            "skipped": trainer.skipped_steps,
            "steps": trainer.global_steps,
        }
        trainer.close()
    return facts


@pytest.mark.parametrize("stage", [0, 1, 2, 3])
@pytest.mark.parametrize("precision", [Precision.FP16, Precision.AMP_BF16], ids=str)
def test_recording_changes_no_bit(
    teams: dict[int, Team], tmp_path: Path, stage: int, precision: Precision
) -> None:
    ways = {"stage": stage, "precision": precision}
    without = teams[2].run(trained, run_dir=None, **ways)
    recorded = teams[2].run(trained, run_dir=str(tmp_path), **ways)
    assert recorded == without
    assert without[0]["steps"] == STEPS
    if precision is Precision.FP16:
        assert 2 < without[0]["skipped"] < STEPS
