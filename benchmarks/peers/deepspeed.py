"""DeepSpeed 0.19.8, on the CPU through gloo: its defaults, but for what makes it faster here."""

import logging
import os
from typing import Any

from torch import Tensor

from benchmarks.model import GPT, Batch
from benchmarks.peers.protocol import ScaledContestant
from benchmarks.setting import Setting, zero_config

os.environ.setdefault("DS_ACCELERATOR", "cpu")

import deepspeed  # noqa: E402  (it reads DS_ACCELERATOR when it is imported)
from deepspeed.utils import logger  # noqa: E402

FASTER_HERE = {
    1: {"reduce_bucket_size": 5_000_000, "allgather_bucket_size": 5_000_000},
    2: {"reduce_bucket_size": 5_000_000, "allgather_bucket_size": 5_000_000},
}
"""Smaller buckets take 3 to 5 % off stages 1 and 2; nothing else tried helped: see NOTES.md."""


class DeepSpeed:
    """A DeepSpeed engine behind the contestants' protocol."""

    def __init__(self, engine: Any) -> None:
        self.engine = engine

    def step(self, batch: Batch) -> Tensor:
        """Forward, backward and step, as DeepSpeed's own scripts do."""
        loss: Tensor = self.engine(*batch)
        self.engine.backward(loss)
        self.engine.step()
        return loss.detach()

    @property
    def scale(self) -> float:
        """The loss scale that the next step will use."""
        return float(self.engine.optimizer.loss_scale)

    @property
    def skipped_steps(self) -> int:
        """DeepSpeed's own count."""
        return int(self.engine.skipped_steps)


def build(model: GPT, setting: Setting) -> ScaledContestant:
    """Hand the model to DeepSpeed."""
    logger.setLevel(logging.ERROR)
    config = zero_config(setting)
    config["zero_optimization"] |= FASTER_HERE.get(setting.stage, {})
    engine, *_ = deepspeed.initialize(
        model=model, model_parameters=model.parameters(), config=config
    )
    return DeepSpeed(engine)
