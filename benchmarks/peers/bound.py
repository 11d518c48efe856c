"""The lower bound: what no engine of this stage can leave out, timed bare and one after another.

Compute: forward and backward in the compute type, no optimizer. Wire: the collectives that the
stage cannot avoid, on flat tensors. Update: a fused AdamW on the states that one rank owns. No
casts, no norm, no finite check, no sum of what was exchanged. It trains nothing real: its loss
stays where it began.
"""

from collections.abc import Callable
from time import perf_counter_ns

import torch
from torch import Tensor
from torch import distributed as dist

from benchmarks.model import GPT, Batch
from benchmarks.peers.protocol import PartedContestant
from benchmarks.setting import Setting
from probe.schema.vocabulary import Precision


class Bound:
    """The parts of a step, each by itself."""

    def __init__(self, model: GPT, setting: Setting) -> None:
        self.model = model.to(setting.compute_dtype)
        self.loss_scale = 2.0**setting.initial_scale_power
        if setting.precision is not Precision.FP16:
            self.loss_scale = 1.0
        self.stage = setting.stage
        self.parts_ns: dict[str, int] = {}
        elements = sum(parameter.numel() for parameter in model.parameters())
        share = -(-elements // setting.ranks)
        whole = share * setting.ranks
        self.flat = torch.zeros(whole, dtype=setting.compute_dtype)
        self.exchanged = torch.zeros_like(self.flat)
        self.owned = torch.zeros(share, dtype=setting.compute_dtype)
        states = torch.nn.Parameter(torch.zeros(whole if self.stage == 0 else share))
        states.grad = torch.zeros_like(states)
        self.optimizer = torch.optim.AdamW([states], fused=True, **setting.adamw.keywords())

    def step(self, batch: Batch) -> Tensor:
        """Run the parts in turn and note how long each took on this rank."""
        self._loss = torch.zeros(())
        self._timed("compute", lambda: self._compute(batch))
        if self.stage == 0:
            self._timed("reduce", lambda: dist.all_reduce(self.flat))
        else:
            self._timed("reduce", lambda: dist.all_to_all_single(self.exchanged, self.flat))
        self._timed("update", self.optimizer.step)
        if self.stage > 0:
            self._timed("gather", self._gather)
        return self._loss

    def _compute(self, batch: Batch) -> None:
        loss = self.model(*batch)
        (loss * self.loss_scale).backward()
        self._loss = loss.detach()
        self.model.zero_grad(set_to_none=True)

    def _gather(self) -> None:
        for _ in range(2 if self.stage == 3 else 1):
            dist.all_gather_into_tensor(self.flat, self.owned)

    def _timed(self, part: str, work: Callable[[], object]) -> None:
        begin = perf_counter_ns()
        work()
        self.parts_ns[part] = perf_counter_ns() - begin


def build(model: GPT, setting: Setting) -> PartedContestant:
    """Set up the parts for one stage."""
    return Bound(model, setting)
