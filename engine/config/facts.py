"""What is known beside the configuration: of the model, and of what the script brings along."""

from dataclasses import dataclass

from probe.schema.vocabulary import Precision


@dataclass(frozen=True, kw_only=True)
class ModelFacts:
    """What the sizes of stage 3 depend on."""

    hidden_size: int | None = None
    """The largest, where a model has several."""


@dataclass(frozen=True, kw_only=True)
class ScriptFacts:
    """What a trainer's arguments are to the integrations: values for "auto", never overrides."""

    own_optimizer: bool = False
    """The script passes an optimizer; it wins over the block of the configuration."""
    own_schedule: bool = False
    precision: Precision | None = None
    micro_batch: int | None = None
    accumulation_steps: int | None = None
    learning_rate: float | None = None
    betas: tuple[float, float] | None = None
    eps: float | None = None
    weight_decay: float | None = None
    clip_norm: float | None = None
    warmup_steps: int | None = None
    total_steps: int | None = None
