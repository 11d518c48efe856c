"""Stage 1's PyTorch peer: DDP whose optimizer states are sharded by ZeroRedundancyOptimizer."""

import torch
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel

from benchmarks.model import GPT
from benchmarks.peers.autocast import AutocastContestant, grad_scaler
from benchmarks.peers.protocol import Contestant
from benchmarks.setting import Setting


def build(model: GPT, setting: Setting) -> Contestant:
    """Wrap the model; each rank updates its parameters and broadcasts them."""
    optimizer = ZeroRedundancyOptimizer(
        model.parameters(),
        optimizer_class=torch.optim.AdamW,
        parameters_as_bucket_view=True,
        fused=True,
        **setting.adamw.keywords(),
    )
    return AutocastContestant(
        module=DistributedDataParallel(model, gradient_as_bucket_view=True),
        optimizer=optimizer,
        scaler=grad_scaler(setting),
        setting=setting,
    )
