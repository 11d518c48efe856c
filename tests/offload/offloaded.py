"""What the cases of this room share: places, and a training that is hard to get right."""

import tempfile
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from engine.config.policies import LossScalePolicy, OffloadPolicy
from engine.storage.disk import DiskPlace
from probe.schema.vocabulary import Precision, Tier
from tests.engine.cases import config, start
from tests.engine.models import batch_of, loss_of

PLACES = {
    "none": (Tier.DEVICE, Tier.DEVICE),
    "optimizer to host": (Tier.HOST, Tier.DEVICE),
    "optimizer to disk": (Tier.DISK, Tier.DEVICE),
    "all to host": (Tier.HOST, Tier.HOST),
    "all to disk": (Tier.DISK, Tier.DISK),
    "parameters to disk": (Tier.DEVICE, Tier.DISK),
    "parameters to disk, optimizer to host": (Tier.HOST, Tier.DISK),
}


def policies(place: str, folder: Path | str, **changes: Any) -> dict[str, OffloadPolicy]:
    """The two offload policies of a place."""
    chosen = {"pipeline_read": True, "pipeline_write": True, **changes}
    optimizer, params = PLACES[place]
    return {
        "offload_optimizer": OffloadPolicy(tier=optimizer, disk_path=str(folder), **chosen),
        "offload_params": OffloadPolicy(tier=params, disk_path=str(folder), **chosen),
    }


def hard_training(
    stage: int,
    precision: Precision,
    place: str,
    *,
    folder: str,
    accumulation: int = 1,
    sub_group_elements: int = 40,
    optimizer: Any = torch.optim.AdamW,
    steps: int = 6,
    scale: LossScalePolicy | None = None,
    **changes: Any,
) -> tuple[dict[str, Tensor], list[float]]:
    """Clipping, two groups, an unused and a frozen parameter, an overflow on the way."""
    trainer = start(
        config(
            stage,
            precision=precision,
            scale=scale or LossScalePolicy(initial_scale_power=4, window_steps=2),
            accumulation=accumulation,
            clip_norm=0.5,
            zero={"sub_group_elements": sub_group_elements},
            **policies(place, folder, **changes),
        ),
        optimizer=optimizer,
    )
    numbers = []
    try:
        for step in range(steps * accumulation):
            loss = loss_of(trainer, batch_of(step, trainer.global_rank))
            if step == 3 * accumulation and trainer.global_rank == 1:
                loss = loss * torch.inf
            trainer.backward(loss)
            trainer.step()
            numbers += [float(loss.detach()), trainer.get_global_grad_norm()]
        states = {
            f"{at}.{name}": trainer._update.read_state(segment, name)
            for at, segment in enumerate(trainer.segments)
            for name in trainer._update.state_names(segment)
        }
        wide = trainer.consolidated_state_dict(torch.float32)
        narrow = trainer.consolidated_state_dict()
        params = trainer.places.params
        if isinstance(params, DiskPlace):
            # Nothing is whole any more: what is still lent was fetched early.
            assert params.buffers._lent <= trainer.config.offload_params.buffer_count
            assert params.buffers._lent == len(params.expected)
    finally:
        trainer.close()
    assert trainer.skipped_steps == 1
    return {
        **states,
        **{f"fp32 {name}": value for name, value in wide.items()},
        **{f"16 {name}": value for name, value in narrow.items()},
    }, numbers


def differences(stage: int, precision: Precision, places: list[str], **how: Any) -> list[str]:
    """What is not bit for bit as without offload."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        expected, expected_numbers = hard_training(stage, precision, "none", folder=folder, **how)
        for place in places:
            values, numbers = hard_training(stage, precision, place, folder=folder, **how)
            if repr(numbers) != repr(expected_numbers):
                found.append(f"{place}: losses or norms {numbers} instead of {expected_numbers}")
            if values.keys() != expected.keys():
                found.append(f"{place}: {sorted(values.keys() ^ expected.keys())}")
            found += [
                f"{place}: {name}"
                for name, value in expected.items()
                if name in values and not torch.equal(values[name], value)
            ]
    return found
