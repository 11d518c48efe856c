"""The engine of this repository, given the very configuration that DeepSpeed is given."""

from typing import Any

from torch import Tensor

import engine
from benchmarks.model import GPT, Batch
from benchmarks.peers.protocol import ScaledContestant
from benchmarks.setting import Setting, zero_config


class ZeroProbe:
    """A ZeroProbe engine behind the contestants' protocol."""

    def __init__(self, built: Any) -> None:
        self.engine = built

    def step(self, batch: Batch) -> Tensor:
        """Forward, backward and step; the same lines as DeepSpeed's."""
        loss: Tensor = self.engine(*batch)
        self.engine.backward(loss)
        self.engine.step()
        return loss.detach()

    @property
    def scale(self) -> float:
        """The loss scale that the next step will use."""
        return float(self.engine.loss_scale)

    @property
    def skipped_steps(self) -> int:
        """The engine's own count."""
        return int(self.engine.skipped_steps)


def build(model: GPT, setting: Setting) -> ScaledContestant:
    """Hand the model to the engine."""
    built, *_ = engine.initialize(
        model=model, model_parameters=model.parameters(), config=zero_config(setting)
    )
    return ZeroProbe(built)
