"""What a model would need and send in every stage with every offload, before anything is run.

A row's device memory is model states + activations + working buffers. Working buffers are bounds,
not facts: from stage 2 on two reduction buckets (one filling, one on its way), in stage 3 two whole
blocks of the model (in use and fetched ahead) if the number of layers is known, and under autocast
the 16-bit copies of the weights. Fragmentation, the allocator's reserve and the library's own
memory come on top, so a row that fits tightly may not fit.
"""

from dataclasses import dataclass, replace

from probe.analyse.theory.activations import Shape, activation_bytes
from probe.analyse.theory.model_states import ModelStates, Partition, model_states
from probe.analyse.theory.traffic import step_traffic
from probe.schema.vocabulary import Precision, Tier

BUCKET_ELEMENTS = 500_000_000
BUCKETS_AT_LEAST = 8
"""A bucket is never more than this part of a model."""
BUCKETS_HELD = 2
BLOCKS_HELD = 2


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What is asked about: a model, a world and how it computes."""

    param_elements: int
    world: int
    precision: Precision = Precision.BF16
    shape: Shape | None = None
    micro_batches: int = 1
    bucket_elements: int = BUCKET_ELEMENTS
    offload_to: Tier = Tier.HOST
    device_memory_bytes: int | None = None


@dataclass(frozen=True, kw_only=True)
class Row:
    """One stage with one offload, on one rank."""

    partition: Partition
    states: ModelStates
    states_bytes: int
    """Model states on the device."""
    activation_bytes: int | None
    """None without the facts of the model's shape."""
    working_bytes: int
    """Buckets, gathered blocks and copies: a bound."""
    offloaded_bytes: int
    """Model states on the other tier."""
    wire_elements: float
    """Elements that a rank sends in an optimizer step."""
    fits: bool | None
    """Whether the device holds it all; None if its memory is not known."""

    @property
    def device_bytes(self) -> int:
        """All that is known to be needed on the device."""
        return self.states_bytes + (self.activation_bytes or 0) + self.working_bytes


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """The whole table for one plan, by stage and then by how much is offloaded."""

    plan: Plan
    rows: tuple[Row, ...]

    @property
    def fitting(self) -> tuple[Row, ...]:
        """Rows known to fit, those that should cost the least time first: nothing offloaded, then
        the lowest stage."""
        fitting = [row for row in self.rows if row.fits]
        return tuple(sorted(fitting, key=lambda row: row.partition.offloaded))


def estimate(plan: Plan) -> Estimate:
    """Every stage and offload that exists."""
    return Estimate(plan=plan, rows=tuple(_row(plan, item) for item in _partitions(plan)))


def _partitions(plan: Plan) -> list[Partition]:
    nowhere, away = Tier.DEVICE, plan.offload_to
    offloads = {
        0: [(nowhere, nowhere)],
        1: [(nowhere, nowhere), (away, nowhere)],
        2: [(nowhere, nowhere), (away, nowhere)],
        3: [(nowhere, nowhere), (away, nowhere), (away, away)],
    }
    return [
        Partition(
            stage=stage,
            precision=plan.precision,
            world=plan.world,
            offload_optimizer=optimizer,
            offload_params=params,
        )
        for stage, pairs in offloads.items()
        for optimizer, params in pairs
    ]


def _row(plan: Plan, partition: Partition) -> Row:
    states = model_states(plan.param_elements, partition)
    activations = None
    if plan.shape is not None:
        activations = activation_bytes(plan.shape, element_bytes=_computing_bytes(plan.precision))
    working = _working_bytes(plan, partition)
    traffic = step_traffic(
        plan.param_elements,
        stage=partition.stage,
        world=plan.world,
        micro_batches=plan.micro_batches,
    )
    row = Row(
        partition=partition,
        states=states,
        states_bytes=states.on(Tier.DEVICE),
        activation_bytes=activations,
        working_bytes=working,
        offloaded_bytes=states.on(plan.offload_to),
        wire_elements=sum(item.wire_elements for item in traffic),
        fits=None,
    )
    if plan.device_memory_bytes is None:
        return row
    return replace(row, fits=row.device_bytes <= plan.device_memory_bytes)


def _computing_bytes(precision: Precision) -> int:
    """Bytes of an element of what forward saves."""
    return 4 if precision is Precision.FP32 else 2


def _working_bytes(plan: Plan, partition: Partition) -> int:
    stage, weights = partition.stage, partition.weight_bytes
    working = 0
    if stage >= 2 and plan.world > 1:
        fair = -(-plan.param_elements // BUCKETS_AT_LEAST)
        working += BUCKETS_HELD * min(plan.bucket_elements, fair) * weights
    held_elements = plan.param_elements
    if stage == 3 and plan.shape is not None and plan.world > 1:
        held_elements = BLOCKS_HELD * -(-plan.param_elements // plan.shape.layers)
        working += held_elements * weights
    if plan.precision in (Precision.AMP_FP16, Precision.AMP_BF16):
        working += held_elements * 2
    return working
