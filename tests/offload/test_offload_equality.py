"""Training with any offload equals the same training without, bit for bit."""

import pytest
import torch

from probe.schema.vocabulary import Precision
from tests.engine.team import Team
from tests.offload.offloaded import PLACES, differences

OPTIMIZER = ["optimizer to host", "optimizer to disk"]
ALL = [place for place in PLACES if place != "none"]


@pytest.mark.parametrize("precision", [Precision.FP32, Precision.BF16, Precision.FP16])
@pytest.mark.parametrize("stage", [1, 2, 3])
def test_same_bits_in_every_stage_precision_and_place(
    pair: Team, stage: int, precision: Precision
) -> None:
    places = ALL if stage == 3 else OPTIMIZER
    for found in pair.run(differences, stage=stage, precision=precision, places=places):
        assert not found


@pytest.mark.parametrize("stage", [1, 2, 3])
def test_same_bits_with_accumulation(pair: Team, stage: int) -> None:
    places = ["all to disk"] if stage == 3 else ["optimizer to disk"]
    arguments = {"stage": stage, "precision": Precision.BF16, "places": places, "accumulation": 3}
    for found in pair.run(differences, **arguments):
        assert not found


@pytest.mark.parametrize("buffer_count", [1, 2, 3])
@pytest.mark.parametrize("pipelined", [False, True])
def test_same_bits_however_few_buffers(pair: Team, buffer_count: int, pipelined: bool) -> None:
    for found in pair.run(
        differences,
        stage=3,
        precision=Precision.BF16,
        places=["all to disk"],
        buffer_count=buffer_count,
        pipeline_read=pipelined,
        pipeline_write=pipelined,
    ):
        assert not found


@pytest.mark.parametrize(
    "optimizer", [torch.optim.SGD, torch.optim.Adagrad, torch.optim.RMSprop, torch.optim.NAdam]
)
def test_same_bits_with_other_optimizers(pair: Team, optimizer: type) -> None:
    for found in pair.run(
        differences,
        stage=2,
        precision=Precision.BF16,
        places=["optimizer to disk"],
        optimizer=optimizer,
    ):
        assert not found
