"""What the cases share: a configuration in one line, and a short training run."""

from typing import Any

import torch
from torch import Tensor

import engine
from engine.config.policies import (
    BatchPolicy,
    Config,
    LossScalePolicy,
    PrecisionPolicy,
    ZeroPolicy,
)
from probe.schema.vocabulary import Precision
from tests.engine.models import batch_of, loss_of, make_odd, two_groups


def config(
    stage: int,
    *,
    precision: Precision = Precision.FP32,
    scale: LossScalePolicy | None = None,
    accumulation: int = 1,
    accumulate_in_fp32: bool = False,
    communication: str | None = None,
    **changes: Any,
) -> Config:
    """Buckets so small that there are many, and few resident parameters in stage 3."""
    zero = {
        "reduce_bucket_elements": 100,
        "persistence_threshold_elements": 20,
        **changes.pop("zero", {}),
    }
    return Config(
        batch=BatchPolicy(micro=4, accumulation_steps=accumulation),
        precision=PrecisionPolicy(
            precision=precision,
            loss_scale=scale or LossScalePolicy(static_scale=1.0),
            accumulate_in_fp32=accumulate_in_fp32,
            communication_dtype=communication,
        ),
        zero=ZeroPolicy(stage=stage, **zero),
        **{"clip_norm": 0.0, **changes},
    )


def start(config: Config, *, make: Any = make_odd, optimizer: Any = torch.optim.AdamW) -> Any:
    """An engine on a fresh model."""
    model = make()
    trainer, *_ = engine.initialize(
        model=model, optimizer=optimizer(two_groups(model), lr=1e-2), config=config
    )
    return trainer


def train(trainer: Any, steps: int, *, first: int = 0) -> list[float]:
    """The losses of a few steps."""
    losses = []
    for step in range(first, first + steps):
        loss = loss_of(trainer, batch_of(step, trainer.global_rank))
        trainer.backward(loss)
        trainer.step()
        losses.append(float(loss.detach()))
    return losses


def everything(trainer: Any) -> list[Tensor]:
    """Copies of all that a step may change on this rank."""
    tensors = [segment.master.detach() for segment in trainer._stage.segments]
    tensors += trainer._update.optimizer_states()
    held = trainer._stage.held()
    for category in ("params", "master_params"):
        tensors += held[category]
    return [tensor.clone() for tensor in tensors]
