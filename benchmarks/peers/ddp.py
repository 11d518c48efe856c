"""Stage 0's PyTorch peer: DistributedDataParallel with a fused AdamW.

In 16 bits the weights and gradients stay fp32 and autocast casts the weights as they are used,
which is what DDP offers. Compressing gradients on the wire does not pay on gloo: see NOTES.md.
"""

import torch
from torch.nn.parallel import DistributedDataParallel

from benchmarks.model import GPT
from benchmarks.peers.autocast import AutocastContestant, grad_scaler
from benchmarks.peers.protocol import Contestant
from benchmarks.setting import Setting


def build(model: GPT, setting: Setting) -> Contestant:
    """Wrap the model; every rank updates everything."""
    return AutocastContestant(
        module=DistributedDataParallel(model, gradient_as_bucket_view=True),
        optimizer=torch.optim.AdamW(model.parameters(), fused=True, **setting.adamw.keywords()),
        scaler=grad_scaler(setting),
        setting=setting,
    )
