"""Model states in bytes per rank: what a stage must hold between two steps, and on which tier.

With P trainable parameters, N ranks and Adam, in 16 bit with fp32 master weights:

    stage   params   grads   master + momentum + variance
      0       2P       2P       12P
      1       2P       2P       12P/N
      2       2P       2P/N     12P/N
      3       2P/N     2P/N     12P/N

In fp32 and under autocast the weights are their own masters: 4P + 4P + 8P, the same 16P, cut in
the same way. Offloading the optimizer moves master weights and optimizer states to another tier.
From stage 2 on this rank's slice of the reduced gradients goes to the host with them, where the
update runs; on disk they would be written only to be read again. Offloading parameters moves the
resting slices of stage 3. A slice is rounded up to whole elements.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from probe.schema.vocabulary import MemoryCategory, Precision, Tier

ADAM_STATES = 2
"""fp32 tensors that Adam keeps for each parameter: momentum and variance."""


@dataclass(frozen=True, kw_only=True)
class Partition:
    """How model states are laid out over ranks and tiers."""

    stage: int
    precision: Precision
    world: int
    offload_optimizer: Tier = Tier.DEVICE
    offload_params: Tier = Tier.DEVICE

    def __post_init__(self) -> None:
        if not 0 <= self.stage <= 3:
            raise ValueError(f"There is no ZeRO stage {self.stage}; stages are 0, 1, 2 and 3.")
        if self.world < 1:
            raise ValueError(f"A world of {self.world} ranks cannot train; it takes at least one.")
        if self.offload_optimizer is not Tier.DEVICE and self.stage < 1:
            raise ValueError("Offloading the optimizer needs stage 1 or above.")
        if self.offload_params is not Tier.DEVICE and self.stage < 3:
            raise ValueError(f"Offloading parameters needs stage 3; this is stage {self.stage}.")

    @property
    def offloaded(self) -> int:
        """How many of optimizer and parameters rest away from the device."""
        return sum(
            tier is not Tier.DEVICE for tier in (self.offload_optimizer, self.offload_params)
        )

    @property
    def weight_bytes(self) -> int:
        """Bytes of an element of weights and gradients."""
        return 2 if self.precision in (Precision.FP16, Precision.BF16) else 4

    @property
    def has_master(self) -> bool:
        """Whether fp32 master weights are kept beside the weights."""
        return self.weight_bytes == 2


@dataclass(frozen=True, kw_only=True)
class ModelStates:
    """Bytes of one rank, by tier and category; what is absent is zero."""

    held_bytes: Mapping[tuple[Tier, MemoryCategory], int]

    def on(self, tier: Tier) -> int:
        """All bytes on a tier."""
        return sum(size for (where, _), size in self.held_bytes.items() if where is tier)

    def of(self, tier: Tier, category: MemoryCategory) -> int:
        """Bytes of a category on a tier."""
        return self.held_bytes.get((tier, category), 0)


def model_states(
    param_elements: int,
    partition: Partition,
    *,
    states_per_param: int = ADAM_STATES,
    frozen_elements: int = 0,
) -> ModelStates:
    """What one rank holds; frozen parameters have weights and nothing else."""
    stage, tier = partition.stage, partition.offload_optimizer
    whole = param_elements
    part = slice_elements(param_elements, partition.world)
    weights = partition.weight_bytes
    updated = part if stage >= 1 else whole

    resting = part if stage >= 3 else whole
    resting += slice_elements(frozen_elements, partition.world) if stage >= 3 else frozen_elements
    held = {(partition.offload_params, MemoryCategory.PARAMS): resting * weights}
    if stage <= 1:
        held[Tier.DEVICE, MemoryCategory.GRADS] = whole * weights
    else:
        waiting = Tier.DEVICE if tier is Tier.DEVICE else Tier.HOST
        held[waiting, MemoryCategory.GRADS] = part * weights
    if partition.has_master:
        held[tier, MemoryCategory.MASTER_PARAMS] = updated * 4
    held[tier, MemoryCategory.OPTIMIZER_STATES] = updated * 4 * states_per_param
    return ModelStates(held_bytes={place: size for place, size in held.items() if size})


def slice_elements(total_elements: int, world: int) -> int:
    """The largest slice when elements are dealt to ranks, rounded up."""
    return -(-total_elements // world)
