"""One rank on an NVIDIA device, through NCCL: the same training and the same record as on a CPU."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import engine
from engine import recording
from engine.config.policies import ActivationPolicy
from engine.optimizers import prefer_fused
from probe.schema.handover import Handover
from probe.schema.tables import COMM, MEMORY, STEPS
from probe.schema.vocabulary import Phase, Precision
from tests.engine.cases import config
from tests.engine.models import batch_of, loss_of, make_odd, two_groups
from tests.telemetry.recorded import rows_of

pytestmark = [
    pytest.mark.cuda,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA device"),
]
DEVICE = "cuda"
STEPS_RUN = 6
TOLERANCE = {Precision.FP32: 1e-5, Precision.BF16: 2**-7, Precision.FP16: 2**-9}


def begin(stage: int, precision: Precision, **changes: Any) -> Any:
    model = make_odd().to(DEVICE)
    trainer, *_ = engine.initialize(
        model=model,
        optimizer=torch.optim.AdamW(two_groups(model), lr=1e-2),
        config=config(stage, precision=precision, **changes),
    )
    assert trainer.device.type == DEVICE
    return trainer


def train(trainer: Any) -> list[float]:
    losses = []
    for step in range(STEPS_RUN):
        loss = loss_of(trainer, batch_of(step, 0).to(DEVICE))
        trainer.backward(loss)
        trainer.step()
        losses.append(float(loss.detach()))
    trainer.close()
    return losses


def plain_losses() -> list[float]:
    model = make_odd().to(DEVICE)
    optimizer = torch.optim.AdamW(two_groups(model), lr=1e-2)
    prefer_fused(optimizer)
    losses = []
    for step in range(STEPS_RUN):
        optimizer.zero_grad()
        loss: Tensor = loss_of(model, batch_of(step, 0).to(DEVICE))
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    return losses


@pytest.mark.parametrize("precision", list(TOLERANCE))
@pytest.mark.parametrize("stage", [0, 1, 2, 3])
def test_the_losses_are_those_of_plain_torch(stage: int, precision: Precision) -> None:
    assert train(begin(stage, precision)) == pytest.approx(plain_losses(), rel=TOLERANCE[precision])


@pytest.mark.parametrize("to_host", [False, True])
@pytest.mark.parametrize("stage", [0, 3])
def test_blocks_computed_again_change_no_bit(stage: int, to_host: bool) -> None:
    policy = ActivationPolicy(every_block=1, offload_to_host=to_host)
    plain = train(begin(stage, Precision.BF16))
    assert train(begin(stage, Precision.BF16, activations=policy)) == plain


@pytest.mark.parametrize("stage", [0, 1, 2, 3])
def test_the_record_is_whole(tmp_path: Path, stage: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "_session", None)
    session = recording.begin(Handover(run_dir=str(tmp_path)))
    train(begin(stage, Precision.BF16))
    session.finished()
    monkeypatch.setattr(recording, "_session", None)
    rows = rows_of(tmp_path, STEPS)
    assert [row["step"] for row in rows] == list(range(STEPS_RUN))
    for row in rows:
        assert sum(row[f"{phase.value}_ns"] for phase in Phase) == row["wall_ns"]
    assert all(row["device_activations_bytes"] > 0 for row in rows_of(tmp_path, MEMORY))
    assert all(row["wire_op"] == row["op"] for row in rows_of(tmp_path, COMM))
