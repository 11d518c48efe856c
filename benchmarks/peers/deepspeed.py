"""DeepSpeed 0.19.8, on the CPU through gloo: its defaults, but for what makes it faster here."""

import logging
import os
from typing import Any

from torch import Tensor

from benchmarks.model import GPT, Batch
from benchmarks.setting import Setting, zero_config
from probe.schema.vocabulary import Precision

os.environ.setdefault("DS_ACCELERATOR", "cpu")

import deepspeed
from deepspeed.utils import logger

FASTER_HERE = {
    1: {"reduce_bucket_size": 5_000_000, "allgather_bucket_size": 5_000_000},
    2: {"reduce_bucket_size": 5_000_000, "allgather_bucket_size": 5_000_000},
}
"""Smaller buckets take 3 to 5 % off stages 1 and 2; nothing else tried helped: see NOTES.md."""


class DeepSpeed:
    """A DeepSpeed engine behind the contestants' protocol."""

    def __init__(self, engine: Any, setting: Setting) -> None:
        self.engine = engine
        self.scaled = setting.precision is Precision.FP16

    def step(self, batch: Batch) -> Tensor:
        """Forward, backward and step, as DeepSpeed's own scripts do."""
        loss: Tensor = self.engine(*batch)
        self.engine.backward(loss)
        self.engine.step()
        return loss.detach()

    @property
    def scale(self) -> float:
        """The loss scale that the next step will use."""
        return float(self.engine.optimizer.loss_scale) if self.scaled else 1.0

    @property
    def skipped_steps(self) -> int:
        """DeepSpeed's own count."""
        return int(self.engine.skipped_steps)


def build(model: GPT, setting: Setting) -> DeepSpeed:
    """Hand the model to DeepSpeed."""
    logger.setLevel(logging.ERROR)
    config = zero_config(setting)
    config["zero_optimization"] |= FASTER_HERE.get(setting.stage, {})
    engine, *_ = deepspeed.initialize(
        model=model, model_parameters=model.parameters(), config=config
    )
    return DeepSpeed(engine, setting)
