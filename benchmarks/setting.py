"""What one comparison holds equal: precision, stage, world, optimizer, batch and seed.

Every contestant is built from the same `Setting`, so a difference in its figures is its own.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from tempfile import mkdtemp
from typing import Any

import torch

from benchmarks.model import FULL, SMALL, TINY, Shape
from probe.schema.vocabulary import Precision

COMPUTE_DTYPES: Mapping[Precision, torch.dtype] = {
    Precision.FP32: torch.float32,
    Precision.FP16: torch.float16,
    Precision.BF16: torch.bfloat16,
}
"""What matrix products run in; master weights and optimizer states are fp32 throughout."""

DEVICE = "cpu"
"""Where everything runs: DeepSpeed, DDP and FSDP2 all work there through gloo."""

SHAPES: Mapping[str, Shape] = {"full": FULL, "small": SMALL, "tiny": TINY}


OFFLOADS: Mapping[str, tuple[tuple[str, ...], str]] = {
    "none": ((), "none"),
    "optimizer-cpu": (("offload_optimizer",), "cpu"),
    "optimizer-nvme": (("offload_optimizer",), "nvme"),
    "params-cpu": (("offload_optimizer", "offload_param"), "cpu"),
    "params-nvme": (("offload_optimizer", "offload_param"), "nvme"),
}
"""The blocks of the configuration that an offload needs, and their device."""


@dataclass(frozen=True, kw_only=True)
class AdamWSettings:
    """One set of hyper-parameters for all; no gradient clipping, so nobody does extra work."""

    lr: float = 6e-4
    betas: tuple[float, float] = (0.9, 0.95)
    eps: float = 1e-8
    weight_decay: float = 0.1

    def keywords(self) -> dict[str, Any]:
        """Return the hyper-parameters as torch.optim.AdamW takes them."""
        return asdict(self)


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One row of the benchmark: what is trained, how, on how many ranks."""

    precision: Precision = Precision.FP32
    stage: int = 0
    ranks: int = 2
    shape: str = "full"
    micro_batch: int = 4
    seed: int = 1234
    adamw: AdamWSettings = field(default_factory=AdamWSettings)
    initial_scale_power: int = 10
    """fp16 starts so low that no step of a speed run overflows: a skipped step is a fast one."""
    scale_window: int = 1000
    offload: str = "none"
    """What rests elsewhere and where, as in "optimizer-cpu" or "params-nvme"; see `OFFLOADS`."""

    @property
    def compute_dtype(self) -> torch.dtype:
        """The dtype of the matrix products."""
        return COMPUTE_DTYPES[self.precision]

    @property
    def model_shape(self) -> Shape:
        """The dimensions of the model."""
        return SHAPES[self.shape]


def zero_config(setting: Setting) -> dict[str, Any]:
    """Return the DeepSpeed-shaped configuration that DeepSpeed and ZeroProbe both read."""
    config: dict[str, Any] = {
        "train_micro_batch_size_per_gpu": setting.micro_batch,
        "gradient_accumulation_steps": 1,
        "gradient_clipping": 0.0,
        "zero_optimization": {"stage": setting.stage},
        "optimizer": {"type": "AdamW", "params": setting.adamw.keywords()},
    }
    blocks, device = OFFLOADS[setting.offload]
    for block in blocks:
        config["zero_optimization"][block] = {"device": device}
        if device == "nvme":
            # A folder of its own: contestants that live at the same time would share files.
            config["zero_optimization"][block]["nvme_path"] = mkdtemp()
        if block == "offload_optimizer":
            config["zero_optimization"][block] |= {"pipeline_read": True, "pipeline_write": True}
    if setting.precision is Precision.BF16:
        config["bf16"] = {"enabled": True}
    if setting.precision is Precision.FP16:
        config["fp16"] = {
            "enabled": True,
            "initial_scale_power": setting.initial_scale_power,
            "loss_scale_window": setting.scale_window,
        }
    return config
