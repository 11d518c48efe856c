"""The step that the DDP peers share: fp32 master weights, autocast compute, GradScaler in fp16."""

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from benchmarks.model import Batch
from benchmarks.setting import DEVICE, Setting
from probe.schema.vocabulary import Precision


def grad_scaler(setting: Setting) -> torch.amp.GradScaler:
    """Return a scaler that works in fp16 and steps aside in every other precision."""
    return torch.amp.GradScaler(
        DEVICE,
        init_scale=2.0**setting.initial_scale_power,
        growth_interval=setting.scale_window,
        enabled=setting.precision is Precision.FP16,
    )


@dataclass(kw_only=True)
class AutocastContestant:
    """A wrapped module and its optimizer, stepped the way the PyTorch documentation does."""

    module: nn.Module
    optimizer: torch.optim.Optimizer
    scaler: torch.amp.GradScaler
    setting: Setting

    def step(self, batch: Batch) -> Tensor:
        """Forward under autocast, backward on the scaled loss, unscale and update."""
        with self._casting():
            loss: Tensor = self.module(*batch)
        self.scaler.scale(loss).backward()  # type: ignore[no-untyped-call]
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad(set_to_none=True)
        return loss.detach()

    def _casting(self) -> AbstractContextManager[object]:
        if self.setting.precision is Precision.FP32:
            return nullcontext()
        return torch.autocast(DEVICE, dtype=self.setting.compute_dtype)
