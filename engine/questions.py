"""What one may ask an engine: its sizes, its scale, its memory, its weights.

Nothing here changes anything. The `Engine` conducts a step (`engine.py`); scripts written for
DeepSpeed, observers and the record ask it these questions in between.
"""

import torch
from torch import Tensor
from torch.nn import Module
from torch.optim import Optimizer

from engine.collectives import Collectives
from engine.config.policies import Config
from engine.kept import KeptActivations
from engine.loss_scale import LossScaler
from engine.memory import Ledger, ModelSize, closed_form, storage_bytes
from engine.partition import Member
from engine.precision import weight_dtype
from engine.segments import Segment
from engine.stages import Stage
from engine.storage import Places
from engine.update import Update
from probe.schema.vocabulary import MemoryCategory, Tier


class Questions:
    """The questions that an engine answers from what it is made of."""

    module: Module
    config: Config
    collectives: Collectives
    loss_scaler: LossScaler
    kept: KeptActivations
    places: Places
    global_rank: int
    world_size: int
    _members: list[Member]
    _stage: Stage
    _update: Update | None
    _gradient_norm: float

    @property
    def optimizer(self) -> Optimizer | None:
        """The user's optimizer; its groups hold this rank's segments."""
        return None if self._update is None else self._update.optimizer

    @property
    def segments(self) -> list[Segment]:
        """What this rank updates."""
        return self._stage.segments

    @property
    def loss_scale(self) -> float:
        """What the next loss is multiplied by."""
        return self.loss_scaler.scale

    @property
    def cur_scale(self) -> float:
        """DeepSpeed's name for `loss_scale`."""
        return self.loss_scaler.scale

    def train_batch_size(self) -> int:
        """Samples a step, over all ranks."""
        return (
            self.train_micro_batch_size_per_gpu()
            * self.gradient_accumulation_steps()
            * self.world_size
        )

    def train_micro_batch_size_per_gpu(self) -> int:
        """Samples a rank takes at once."""
        return self.config.batch.micro or 1

    def gradient_accumulation_steps(self) -> int:
        """Micro-batches a step."""
        return self.config.batch.accumulation_steps

    def zero_optimization_stage(self) -> int:
        """0 to 3."""
        return self.config.zero.stage

    def get_lr(self) -> list[float]:
        """The learning rate of each parameter group."""
        assert self._update is not None, "asked of an engine that trains"
        return [float(group["lr"]) for group in self._update.optimizer.param_groups]

    def get_global_grad_norm(self) -> float:
        """The last step's norm of gradients, unscaled, before clipping; inf or NaN if skipped."""
        return self._gradient_norm

    def consolidated_state_dict(self, dtype: torch.dtype | None = None) -> dict[str, Tensor]:
        """The whole model on the host of rank 0, empty elsewhere; every rank must call it.

        `torch.float32` gives the masters, None the type the model computes in.
        """
        masters = dtype == torch.float32
        values: dict[int, Tensor] = {}
        for parameter, whole in self._stage.whole_weights(masters=masters):
            if self.global_rank == 0:
                values[id(parameter)] = whole.detach().to("cpu", dtype or whole.dtype, copy=True)
        if self.global_rank != 0:
            return {}
        return {
            name: values[id(tensor)] if id(tensor) in values else tensor.detach().cpu().clone()
            for name, tensor in self.module.state_dict(keep_vars=True).items()
        }

    def ledger(self) -> Ledger:
        """The bytes of model states on this rank beside their closed form."""
        held = {category: storage_bytes(some) for category, some in self._stage.held().items()}
        away = {where: storage_bytes(some) for where, some in self._stage.away().items()}
        states = [] if self._update is None else self._update.optimizer_states()
        held[MemoryCategory.OPTIMIZER_STATES] = storage_bytes(states)
        if self.places.states.tier is not Tier.DEVICE:
            away[Tier.HOST, MemoryCategory.OPTIMIZER_STATES] = storage_bytes(states)
        held[MemoryCategory.ACTIVATIONS] = self.kept.device_bytes
        held[MemoryCategory.COMM_BUFFERS] = self.collectives.pool.held_bytes
        for where, more in self.places.held_bytes().items():
            away[where] = away.get(where, 0) + more
            held[where[1]] = held.get(where[1], 0) + more
        trained = sum(member.elements for member in self._members if member.group is not None)
        masters = sum(segment.elements for segment in self._stage.segments)
        wide = sum(state.numel() for state in states if state.dim())
        wide += away.get((Tier.DISK, MemoryCategory.OPTIMIZER_STATES), 0) // 4
        size = ModelSize(
            stage=self.config.zero.stage,
            world=self.world_size,
            trained_elements=trained,
            frozen_elements=sum(member.elements for member in self._members) - trained,
            weight_bytes=weight_dtype(self.config.precision.precision).itemsize,
            moments=round(wide / masters) if masters else 0,
        )
        return Ledger(held_bytes=held, away_bytes=away, predicted_bytes=closed_form(size))
