"""Stages 2 and 3's PyTorch peer: fully_shard on each block, keeping or dropping gathered weights.

The sharded weights are the fp32 masters; compute and reduction run in the 16-bit type.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard

from benchmarks.model import GPT, Batch
from benchmarks.peers.autocast import grad_scaler
from benchmarks.peers.protocol import Contestant
from benchmarks.setting import DEVICE, Setting
from probe.schema.vocabulary import Precision


@dataclass(kw_only=True)
class Fsdp2:
    """A sharded module; outside fp16 the scaler passes everything through."""

    module: FSDPModule
    optimizer: torch.optim.Optimizer
    scaler: torch.amp.GradScaler

    def step(self, batch: Batch) -> Tensor:
        """Forward, backward on the scaled loss, unscale and update."""
        loss: Tensor = self.module(*batch)  # type: ignore[operator]
        self.scaler.scale(loss).backward()  # type: ignore[no-untyped-call]
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad(set_to_none=True)
        return loss.detach()


def build(model: GPT, setting: Setting) -> Contestant:
    """Shard each block and then the rest; stage 2 keeps what forward gathered until backward."""
    mesh = init_device_mesh(DEVICE, (setting.ranks,))
    policy = (
        MixedPrecisionPolicy()
        if setting.precision is Precision.FP32
        else MixedPrecisionPolicy(
            param_dtype=setting.compute_dtype, reduce_dtype=setting.compute_dtype
        )
    )
    drop = setting.stage == 3
    for block in model.blocks:
        fully_shard(block, mesh=mesh, mp_policy=policy, reshard_after_forward=drop)
    module = fully_shard(model, mesh=mesh, mp_policy=policy, reshard_after_forward=drop)
    optimizer = torch.optim.AdamW(model.parameters(), fused=True, **setting.adamw.keywords())
    return Fsdp2(module=module, optimizer=optimizer, scaler=grad_scaler(setting))
