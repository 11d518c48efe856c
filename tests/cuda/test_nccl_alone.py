"""One rank on an NVIDIA device, through NCCL: the same training and the same record as on a CPU."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import engine
from engine import recording
from engine.config.policies import ActivationPolicy
from engine.observer import Recorder
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


@contextmanager
def recorded(run_dir: Path, **handover: Any) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recording, "_session", None)
        session = recording.begin(Handover(run_dir=str(run_dir), **handover))
        yield
        session.finished()


@contextmanager
def no_synchronisation() -> Iterator[None]:
    """Whatever makes the host wait for the device is an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch says that this is a prototype.
        torch.cuda.set_sync_debug_mode("error")
        try:
            yield
        finally:
            torch.cuda.set_sync_debug_mode("default")


@pytest.mark.parametrize("stage", [0, 1, 2, 3])
def test_the_record_is_whole(tmp_path: Path, stage: int) -> None:
    with recorded(tmp_path):
        losses = train(begin(stage, Precision.BF16))
    rows = rows_of(tmp_path, STEPS)
    assert [row["step"] for row in rows] == list(range(STEPS_RUN))
    assert [row["loss"] for row in rows] == pytest.approx(losses)
    for row in rows:
        assert sum(row[f"{phase.value}_ns"] for phase in Phase) == row["wall_ns"]
    assert all(row["wire_op"] == row["op"] for row in rows_of(tmp_path, COMM))
    assert all(0 <= row["exposed_ns"] <= row["busy_ns"] for row in rows_of(tmp_path, COMM))


def test_the_allocator_is_read_and_left_alone(tmp_path: Path) -> None:
    torch.cuda.reset_peak_memory_stats()
    with recorded(tmp_path):
        train(begin(2, Precision.BF16))
        peak_bytes = torch.cuda.max_memory_allocated()
    rows = rows_of(tmp_path, MEMORY)
    assert rows[-1]["peak_allocated_bytes"] == peak_bytes
    for row in rows:
        assert row["device_activations_bytes"] > 0 and row["allocator_retries"] == 0
        assert row["device_params_bytes"] < row["allocated_bytes"] <= row["reserved_bytes"]
        assert row["allocated_bytes"] <= row["peak_allocated_bytes"] <= row["peak_reserved_bytes"]


def test_a_phase_lasts_as_long_as_the_device_works_on_it(tmp_path: Path) -> None:
    """The host is done with forward at once; its time on the device is that of its kernels."""
    measured: list[tuple[torch.cuda.Event, torch.cuda.Event]] = []
    large = torch.randn(4096, 4096, device=DEVICE)

    def works_long(*_: Any) -> None:
        began, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        began.record()
        for _ in range(20):
            torch.mm(large, large)
        ended.record()
        measured.append((began, ended))

    with recorded(tmp_path):
        trainer = begin(1, Precision.BF16)
        trainer.module.register_forward_hook(works_long)
        train(trainer)
        torch.cuda.synchronize()
    rows = rows_of(tmp_path, STEPS)
    for row, (began, ended) in zip(rows[1:], measured[1:], strict=True):
        work_ns = began.elapsed_time(ended) * 1e6
        assert row["forward_ns"] >= 0.999 * work_ns
        assert row["forward_ns"] > row["wall_ns"] / 2


def test_recording_makes_the_host_wait_for_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = Recorder.step_ended

    def watched(self: Recorder, *args: Any) -> None:
        with no_synchronisation():
            plain(self, *args)

    monkeypatch.setattr(Recorder, "step_ended", watched)
    with recorded(tmp_path, numerics_every=0):
        train(begin(2, Precision.BF16))
    assert len(rows_of(tmp_path, STEPS)) == STEPS_RUN


def test_a_watched_loop_is_timed_on_the_device(tmp_path: Path) -> None:
    model = make_odd().to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    losses = []
    with recorded(tmp_path):
        watch = engine.watch(model, optimizer)
        for step in range(STEPS_RUN):
            optimizer.zero_grad()
            loss = loss_of(model, batch_of(step, 0).to(DEVICE))
            loss.backward()
            optimizer.step()
            with no_synchronisation():
                watch.step(loss)
            losses.append(loss.detach())
    rows = rows_of(tmp_path, STEPS)
    assert [row["loss"] for row in rows] == [float(loss) for loss in losses]
    for row in rows:
        assert sum(row[f"{phase.value}_ns"] for phase in Phase) == row["wall_ns"]
        assert row["forward_ns"] > 0 and row["backward_ns"] > 0 and row["optimizer_ns"] > 0
