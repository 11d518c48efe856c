"""The choices a training run makes, as small frozen policies; every default is DeepSpeed's.

Everything else of the engine reads only these. Parsing what users bring lives next door.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from probe.schema.vocabulary import Precision, Tier


class ScaleRule(StrEnum):
    """Which state machine moves the loss scale."""

    ZERO = "zero"
    """DeepSpeed's ZeRO scaler, for 16-bit weights in every stage."""
    GRAD_SCALER = "grad_scaler"
    """torch.amp.GradScaler's rule, for autocast."""


class AtMinimum(StrEnum):
    """What to do when an overflow comes while the loss scale is already at its minimum."""

    STOP = "stop"
    CLAMP = "clamp"


class SameHost(StrEnum):
    """How bytes move between ranks of one host on a CPU."""

    MEMORY = "memory"
    """Each reads its peers' memory, where all ranks can; by sockets otherwise."""
    SOCKETS = "sockets"


@dataclass(frozen=True, kw_only=True)
class LossScalePolicy:
    """How the loss is scaled before backward; only 16-bit floats with 5 exponent bits need it."""

    rule: ScaleRule = ScaleRule.ZERO
    static_scale: float = 0.0
    """Above zero: a fixed scale; an overflow still skips the step. Zero: dynamic."""
    initial_scale_power: int = 16
    window_steps: int = 1000
    hysteresis: int = 2
    consecutive_hysteresis: bool = False
    minimum_scale: float = 1.0
    at_minimum: AtMinimum = AtMinimum.STOP


@dataclass(frozen=True, kw_only=True)
class PrecisionPolicy:
    """What is cast where."""

    precision: Precision = Precision.FP32
    loss_scale: LossScalePolicy = field(default_factory=LossScalePolicy)
    accumulate_in_fp32: bool = False
    """Keep the gradient sum of several micro-batches in fp32."""
    communication_dtype: str | None = None
    """"fp32", "fp16" or "bf16" for reductions; None is the dtype of the gradients."""


@dataclass(frozen=True, kw_only=True)
class ZeroPolicy:
    """Who owns what, and how much of it may be in flight; sizes count elements, not bytes."""

    stage: int = 0
    reduce_bucket_elements: int = 500_000_000
    allgather_bucket_elements: int = 500_000_000
    overlap_communication: bool = True
    prefetch_elements: int = 50_000_000
    persistence_threshold_elements: int = 100_000
    max_live_elements: int = 1_000_000_000
    sub_group_elements: int = 1_000_000_000
    gather_16bit_weights_on_save: bool = False


@dataclass(frozen=True, kw_only=True)
class OffloadPolicy:
    """Where a kind of state rests between uses."""

    tier: Tier = Tier.DEVICE
    disk_path: str | None = None
    pin_memory: bool = True
    buffer_count: int = 4
    buffer_elements: int = 100_000_000
    pipeline_read: bool = False
    pipeline_write: bool = False
    ratio: float = 1.0


@dataclass(frozen=True, kw_only=True)
class OptimizerPolicy:
    """An optimizer asked for by name, with its parameters as the user wrote them."""

    type: str
    params: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class SchedulePolicy:
    """A learning-rate schedule asked for by name."""

    type: str
    params: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class BatchPolicy:
    """train = micro × accumulation × world, always exact; None only before the world is known."""

    train: int | None = None
    micro: int | None = None
    accumulation_steps: int = 1


@dataclass(frozen=True, kw_only=True)
class ActivationPolicy:
    """Which blocks forget their activations and compute them again in backward."""

    every_block: int = 0
    """0: none, 1: every block, k: every k-th block."""
    offload_to_host: bool = False


@dataclass(frozen=True, kw_only=True)
class CheckpointPolicy:
    """What the engine saves by itself, and what it begins with."""

    folder: str | None = None
    """None: a folder of the run, or `checkpoints` where nothing is recorded."""
    every_steps: int = 0
    """0: only what the script saves."""
    keep_last: int = 0
    """0: all."""
    asynchronous: bool = False
    resume: str | None = None
    """A checkpoint, a folder of them, or "latest": the folder's own, if there is one."""


@dataclass(frozen=True, kw_only=True)
class Config:
    """All the choices of one run."""

    batch: BatchPolicy = field(default_factory=BatchPolicy)
    precision: PrecisionPolicy = field(default_factory=PrecisionPolicy)
    zero: ZeroPolicy = field(default_factory=ZeroPolicy)
    offload_optimizer: OffloadPolicy = field(default_factory=OffloadPolicy)
    offload_params: OffloadPolicy = field(default_factory=lambda: OffloadPolicy(buffer_count=5))
    activations: ActivationPolicy = field(default_factory=ActivationPolicy)
    checkpoint: CheckpointPolicy = field(default_factory=CheckpointPolicy)
    optimizer: OptimizerPolicy | None = None
    schedule: SchedulePolicy | None = None
    clip_norm: float = 1.0
    """Global gradient norm to clip to, after unscaling; 0 is off."""
    prescale_gradients: bool = False
    """Divide by the world size before the reduction instead of after it."""
    predivide_factor: float = 1.0
    same_host: SameHost = SameHost.MEMORY
    steps_per_print: int | None = None
