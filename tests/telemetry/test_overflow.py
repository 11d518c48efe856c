"""An overflow names the tensor it began in, the rank and the micro-batch."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from engine.config.policies import LossScalePolicy
from probe.schema.tables import OVERFLOW, STEPS
from probe.schema.vocabulary import Precision
from tests.engine.cases import config
from tests.engine.team import Team
from tests.telemetry.recorded import begin, micro_batch, recording_into, rows_of

PARAMETER = "blocks.1.up.weight"
MODULE = "blocks.1.norm"
BAD_RANK, BAD_MICRO_BATCH, BAD_STEPS = 1, 1, (1, 2)
ACCUMULATION = 2

every_way = pytest.mark.parametrize("precision", list(Precision), ids=str)
every_stage = pytest.mark.parametrize("stage", [0, 1, 2, 3])


class Poison(torch.autograd.Function):
    """The identity, with two infinities in its gradient."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor) -> Tensor:
        return weight.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        spoiled = gradient.clone()
        spoiled[0, 1] = torch.inf
        spoiled[-1, 2] = -torch.inf
        return spoiled


class Culprit:
    """Says when this rank is to go wrong."""

    def __init__(self, trainer: Any) -> None:
        self.trainer = trainer

    def is_due(self) -> bool:
        trainer = self.trainer
        return (
            trainer.global_rank == BAD_RANK
            and trainer.global_steps in BAD_STEPS
            and trainer.micro_steps % ACCUMULATION == BAD_MICRO_BATCH
        )

    def spoil_gradient(self) -> None:
        up = self.trainer.module.blocks[1].up

        def forward(x: Tensor) -> Tensor:
            weight = Poison.apply(up.weight) if self.is_due() else up.weight
            return nn.functional.linear(x, weight, up.bias)

        up.forward = forward

    def spoil_output(self) -> None:
        def spoiled(module: nn.Module, args: Any, output: Tensor) -> Tensor | None:
            del module, args
            if not self.is_due():
                return None
            output = output.clone()
            output[0, 0, 0] = torch.inf
            return output

        self.trainer.module.blocks[1].norm.register_forward_hook(spoiled)


def overflowing(run_dir: str, stage: int, precision: Precision, where: str) -> list[bool]:
    with recording_into(run_dir):
        trainer = begin(
            config(
                stage,
                precision=precision,
                accumulation=ACCUMULATION,
                scale=LossScalePolicy(initial_scale_power=3, hysteresis=1),
            )
        )
        culprit = Culprit(trainer)
        culprit.spoil_gradient() if where == "gradient" else culprit.spoil_output()
        applied = []
        for number in range(4 * ACCUMULATION):
            micro_batch(trainer, number)
            if trainer.micro_steps % ACCUMULATION == 0:
                applied.append(trainer.was_step_applied())
        trainer.close()
    return applied


@every_way
@every_stage
def test_a_bad_gradient_is_named_exactly(
    teams: dict[int, Team], tmp_path: Path, stage: int, precision: Precision
) -> None:
    ended = teams[2].run(
        overflowing, run_dir=str(tmp_path), stage=stage, precision=precision, where="gradient"
    )
    assert ended == [[True, False, False, True]] * 2
    rows = rows_of(tmp_path, OVERFLOW)
    told = [
        (row["rank"], row["step"], row["role"], row["parameter"], row["micro_batch"])
        for row in rows
    ]
    assert told == [(BAD_RANK, step, "gradient", PARAMETER, BAD_MICRO_BATCH) for step in BAD_STEPS]
    for row in rows:
        assert (row["kind"], row["module"], row["phase"]) == ("inf", "blocks.1.up", "backward")
        assert (row["nonfinite_elements"], row["tensor_elements"]) == (2, 64 * 32)
        assert row["first"]
        assert row["largest_finite"] is None or 0 < row["largest_finite"] < 1e3
    scales = {row["step"]: row["loss_scale"] for row in rows_of(tmp_path, STEPS)}
    assert [row["loss_scale"] for row in rows] == [scales[step] for step in BAD_STEPS]


@every_way
@every_stage
def test_a_repeated_overflow_names_the_module_it_began_in(
    teams: dict[int, Team], tmp_path: Path, stage: int, precision: Precision
) -> None:
    ended = teams[2].run(
        overflowing, run_dir=str(tmp_path), stage=stage, precision=precision, where="output"
    )
    assert ended == [[True, False, False, True]] * 2
    rows = rows_of(tmp_path, OVERFLOW)
    assert {row["rank"] for row in rows} == {BAD_RANK}
    assert {row["micro_batch"] for row in rows} == {BAD_MICRO_BATCH}
    first, second = (
        [(row["role"], row["module"]) for row in rows if row["first"] and row["step"] == step]
        for step in BAD_STEPS
    )
    assert first == [("loss", None)], "nobody was watching the first time"
    assert second == [("output", MODULE)]
    (output,) = (row for row in rows if row["role"] == "output")
    assert (output["kind"], output["phase"]) == ("inf", "forward")
    assert (output["nonfinite_elements"], output["tensor_elements"]) == (1, 4 * 5 * 32)
    assert 0 < output["largest_finite"] < 100


def weight_gone_bad(run_dir: str, stage: int) -> None:
    with recording_into(run_dir):
        trainer = begin(config(stage))
        micro_batch(trainer, 0)
        with torch.no_grad():
            for segment in trainer.segments:
                for span in segment.spans:
                    if span.member.name == PARAMETER and span.offset == 0:
                        segment.master[span.start] = torch.nan
        for number in (1, 2):
            micro_batch(trainer, number)
        trainer.close()


@pytest.mark.parametrize("stage", [0, 3])
def test_a_bad_weight_is_told_from_a_bad_gradient(
    teams: dict[int, Team], tmp_path: Path, stage: int
) -> None:
    teams[2].run(weight_gone_bad, run_dir=str(tmp_path), stage=stage)
    first = [row for row in rows_of(tmp_path, OVERFLOW) if row["first"] and row["rank"] == 0]
    assert {(row["role"], row["parameter"], row["kind"]) for row in first} == {
        ("weight", PARAMETER, "nan")
    }
