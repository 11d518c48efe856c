"""The ledger of model states: what a rank holds, what the closed form says, and the names between.

Mixed precision with Adam, P parameters, N ranks: stage 0 holds 2P + 2P + 12P bytes, stage 1 divides
the 12P by N, stage 2 the gradients too, stage 3 everything. fp32 training holds 4P + 4P + 8P
instead. What is held beyond that has a name: padding to a multiple of N, parameters that stay
resident, gradients that are accumulated in fp32, counters of the optimizer.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from torch import Tensor

from probe.schema.vocabulary import MemoryCategory, Tier

MODEL_STATES = (
    MemoryCategory.PARAMS,
    MemoryCategory.GRADS,
    MemoryCategory.MASTER_PARAMS,
    MemoryCategory.OPTIMIZER_STATES,
)


@dataclass(frozen=True, kw_only=True)
class ModelSize:
    """What the closed form depends on."""

    stage: int
    world: int
    trained_elements: int
    frozen_elements: int
    weight_bytes: int
    """Per element: 2 in 16-bit training, 4 in fp32."""
    moments: int
    """fp32 values that the optimizer keeps for each element: 2 for Adam, 1 for momentum."""


def closed_form(size: ModelSize) -> dict[MemoryCategory, float]:
    """Bytes of the model states on one rank, as the papers count them: nothing padded."""
    weights = (size.trained_elements + size.frozen_elements) * size.weight_bytes
    gradients = size.trained_elements * size.weight_bytes
    masters = 4 * size.trained_elements if size.weight_bytes < 4 else 0
    states = 4 * size.moments * size.trained_elements
    share = 1 / size.world
    return {
        MemoryCategory.PARAMS: weights * (share if size.stage >= 3 else 1),
        MemoryCategory.GRADS: gradients * (share if size.stage >= 2 else 1),
        MemoryCategory.MASTER_PARAMS: masters * (share if size.stage >= 1 else 1),
        MemoryCategory.OPTIMIZER_STATES: states * (share if size.stage >= 1 else 1),
    }


@dataclass(frozen=True, kw_only=True)
class Ledger:
    """Bytes held by category, beside the closed form."""

    held_bytes: Mapping[MemoryCategory, int]
    """Wherever they rest."""
    predicted_bytes: Mapping[MemoryCategory, float]
    away_bytes: Mapping[tuple[Tier, MemoryCategory], int] = field(default_factory=dict)
    """What of them does not rest on the device, and where instead."""

    @property
    def residual_bytes(self) -> dict[MemoryCategory, float]:
        """Held minus predicted, for the model states."""
        return {
            category: self.held_bytes.get(category, 0) - self.predicted_bytes[category]
            for category in MODEL_STATES
        }


def storage_bytes(tensors: Sequence[Tensor]) -> int:
    """Bytes of the tensors' own elements; views of one buffer are passed as the buffer."""
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)
