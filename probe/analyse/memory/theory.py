"""Measured memory beside the closed form, category by category, and a name for what differs.

Model states have a closed form; what exceeds it by no more than 2 % or 1 MiB is padding. Weights of
stage 3 exceed it by what stays resident, and only what a page would hold is padding there. Gathered
parameters, gradient buckets and communication buffers have none: they are what a stage costs
beside its states, and the whole of them is the residual, under its own name. Activations have one
if the run recorded the shape of a transformer; it is a rule of thumb, not to the byte.
"""

from dataclasses import dataclass
from enum import StrEnum

from probe.analyse.memory.use import MemoryPeak
from probe.analyse.theory.activations import Shape, activation_bytes
from probe.analyse.theory.model_states import Partition, model_states
from probe.schema.documents import Manifest, RunConfig
from probe.schema.vocabulary import MemoryCategory, Precision, Tier

PADDING_SHARE = 0.02
PADDING_BYTES = 1 << 20
SLICE_PADDING_BYTES = 4096
"""Slices of stage 3 are padded by less than one element a rank and unit; residents are far more."""
WEIGHTS = (MemoryCategory.PARAMS, MemoryCategory.GRADS, MemoryCategory.MASTER_PARAMS)
STATES = (*WEIGHTS, MemoryCategory.OPTIMIZER_STATES)

_MOMENTS = {"adam": 2, "adamw": 2, "lion": 1, "adagrad": 1}

Place = tuple[Tier, MemoryCategory]


class Residual(StrEnum):
    """Why measured memory differs from the closed form."""

    NONE = "none"
    """Equal, or without a form to differ from."""
    PADDING = "padding"
    RESIDENT = "resident"
    """Small parameters that stage 3 leaves gathered."""
    FP32_SUMS = "fp32 sums"
    """Gradients of several micro-batches that are added up in fp32."""
    PREFETCH = "prefetch"
    """Units gathered for use or ahead of it."""
    BUCKETS = "buckets"
    STAGING = "staging"
    """Buffers of collectives and transfers."""
    UNSAVED = "unsaved"
    """Less than the form: activations that a fused kernel or a checkpoint never kept."""
    TEMPORARY = "temporary"
    """In no category: workspaces and intermediate results."""
    NOT_AT_ONCE = "not at once"
    """Categories peak at different moments of the step."""
    FRAGMENTATION = "fragmentation"
    UNEXPLAINED = "unexplained"


_OWN_NAME = {
    MemoryCategory.GATHERED_PARAMS: Residual.PREFETCH,
    MemoryCategory.GRAD_BUCKETS: Residual.BUCKETS,
    MemoryCategory.COMM_BUFFERS: Residual.STAGING,
    MemoryCategory.OTHER: Residual.TEMPORARY,
}


@dataclass(frozen=True, kw_only=True)
class Beside:
    """One category on one tier of the fullest rank, measured and expected."""

    tier: Tier
    category: MemoryCategory | None
    """None for what lies outside all categories."""
    measured_bytes: int
    theory_bytes: int | None
    residual_bytes: int
    """Measured minus expected, where no form is known the whole."""
    residual: Residual


def memory_beside_theory(peak: MemoryPeak, manifest: Manifest) -> tuple[Beside, ...]:
    """Every category that is held or expected, then what lies outside the ledger."""
    expected = expected_bytes(manifest)
    places = [
        (tier, category)
        for tier in Tier
        for category in MemoryCategory
        if peak.held_bytes.get((tier, category)) or expected.get((tier, category))
    ]
    lines = [
        _beside(place, peak.held_bytes.get(place, 0), expected.get(place), manifest)
        for place in places
    ]
    if peak.from_allocator and peak.unaccounted_bytes:
        outside = peak.unaccounted_bytes
        name = Residual.TEMPORARY if outside > 0 else Residual.NOT_AT_ONCE
        lines.append(_outside(outside, name))
    if peak.fragmented_bytes:
        lines.append(_outside(peak.fragmented_bytes, Residual.FRAGMENTATION))
    return tuple(lines)


def expected_bytes(manifest: Manifest) -> dict[Place, int]:
    """What the closed forms say of each place that they know, 0 included; empty if the run does not
    tell enough."""
    partition, model = partition_of(manifest), manifest.model
    if partition is None or model.param_elements is None:
        return {}
    trained = model.trainable_elements
    trained = model.param_elements if trained is None else trained
    moments = states_per_param(manifest)
    held = model_states(
        trained,
        partition,
        frozen_elements=model.param_elements - trained,
        states_per_param=moments or 0,
    )
    known = [item for item in STATES if item in WEIGHTS or moments is not None]
    expected = {(tier, item): held.of(tier, item) for tier in Tier for item in known}
    if shape := shape_of(manifest):
        element_bytes = 4 if partition.precision is Precision.FP32 else 2
        activations = activation_bytes(shape, element_bytes=element_bytes)
        expected[Tier.DEVICE, MemoryCategory.ACTIVATIONS] = activations
    return expected


def states_per_param(manifest: Manifest) -> int | None:
    """fp32 values that the optimizer keeps for each parameter; None if it is not known."""
    settings = manifest.config.settings
    kind = str(settings.get("optimizer.type", "")).lower()
    if kind == "sgd":
        return 1 if settings.get("optimizer.params.momentum") else 0
    return _MOMENTS.get(kind)


def partition_of(manifest: Manifest) -> Partition | None:
    """How the run laid out its model states; None if it does not say or says what cannot be."""
    config = manifest.config
    if config.stage is None or config.precision is None:
        return None
    try:
        return Partition(
            stage=config.stage,
            precision=config.precision,
            world=manifest.world_size,
            offload_optimizer=config.offload_optimizer,
            offload_params=config.offload_params,
        )
    except ValueError:
        return None


def shape_of(manifest: Manifest) -> Shape | None:
    """The transformer of the run, if it recorded one."""
    model, micro = manifest.model, manifest.config.micro_batch_samples
    if not (model.layers and model.hidden and model.heads and model.sequence and micro):
        return None
    every = manifest.config.settings.get("activations.every_block", 0)
    return Shape(
        layers=model.layers,
        hidden=model.hidden,
        heads=model.heads,
        sequence=model.sequence,
        micro_batch=micro,
        vocabulary=model.vocabulary or 0,
        checkpoint_every=every if isinstance(every, int) and every > 0 else 0,
    )


def _beside(place: Place, measured: int, theory: int | None, manifest: Manifest) -> Beside:
    tier, category = place
    difference = measured - (theory or 0)
    return Beside(
        tier=tier,
        category=category,
        measured_bytes=measured,
        theory_bytes=theory,
        residual_bytes=difference,
        residual=_name(category, difference, theory, manifest.config),
    )


def _name(
    category: MemoryCategory, difference: int, theory: int | None, config: RunConfig
) -> Residual:
    if not difference:
        return Residual.NONE
    if theory is None:
        return _OWN_NAME.get(category, Residual.NONE)
    if category is MemoryCategory.PARAMS and config.stage == 3:
        # With slices elsewhere what is resident is missing there, and on the device instead.
        missing = config.offload_params is not Tier.DEVICE and difference < 0
        if missing or difference > SLICE_PADDING_BYTES:
            return Residual.RESIDENT
    if 0 < difference <= max(PADDING_BYTES, PADDING_SHARE * theory):
        return Residual.PADDING
    if category is MemoryCategory.ACTIVATIONS and difference < 0:
        return Residual.UNSAVED
    if category is MemoryCategory.GRADS and config.settings.get("precision.accumulate_in_fp32"):
        return Residual.FP32_SUMS
    return Residual.UNEXPLAINED


def _outside(size_bytes: int, name: Residual) -> Beside:
    return Beside(
        tier=Tier.DEVICE,
        category=None,
        measured_bytes=size_bytes,
        theory_bytes=None,
        residual_bytes=size_bytes,
        residual=name,
    )
