"""What the engine tells whoever listens: plain facts, no tensors, no files.

The engine calls an `Observer` at six points only. The default does nothing; the recorder that turns
facts into rows implements the same six methods.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from engine.marks import Mark, OnDevice
from probe.schema.vocabulary import (
    CollectiveOp,
    Direction,
    EventKind,
    MemoryCategory,
    NonFinite,
    Phase,
    SkipReason,
    TensorRole,
    Tier,
)


@dataclass(frozen=True, kw_only=True)
class CollectiveFacts:
    """One collective, from its launch to the moment its result could be used."""

    sequence: int
    op: CollectiveOp
    phase: Phase
    block: str
    dtype: str
    """Type of the elements on the wire."""
    logical_bytes: int
    """What ZeRO asked for: the whole tensor that is reduced, gathered or sent."""
    wire_bytes: int
    """What this rank really sent."""
    launched_ns: int
    wait_began_ns: int
    done_ns: int
    marks: tuple[Mark, Mark, Mark] | None = None
    """The same three moments on the device, where the host only asks it to wait."""

    @property
    def exposed_ns(self) -> int:
        """How long the computing thread stood still for it."""
        return self.done_ns - self.wait_began_ns

    def as_reached(self) -> "CollectiveFacts":
        """With the device's times, where its marks are dated."""
        if self.marks is None:
            return self
        launched_ns, began_ns, done_ns = (mark.reached_ns for mark in self.marks)
        if launched_ns is None or began_ns is None or done_ns is None:
            return self
        return replace(self, launched_ns=launched_ns, wait_began_ns=began_ns, done_ns=done_ns)


@dataclass(frozen=True, kw_only=True)
class BadTensor:
    """A tensor that held a value which is no number, and the rank where it arose."""

    rank: int | None
    """None when every rank's part was finite and only their sum was not."""
    name: str
    kind: NonFinite
    role: TensorRole = TensorRole.GRADIENT
    micro_batch: int | None = None
    """Micro-batch of the step in which it came first, where that is known."""
    nonfinite_elements: int | None = None
    tensor_elements: int | None = None
    largest_finite: float | None = None
    """Largest finite magnitude beside them, as far as the tensor was looked at."""


@dataclass(frozen=True, kw_only=True)
class OverflowFacts:
    """Why a step was skipped: the offending gradients, the first to come first."""

    step: int
    loss_scale: float
    offenders: tuple[BadTensor, ...]
    bad_losses: tuple[BadTensor, ...] = ()
    """Losses of this rank's micro-batches that were no numbers already."""


@dataclass(frozen=True, kw_only=True)
class OffloadFacts:
    """All transfers of one category in one direction that ended in a step."""

    tier: Tier
    direction: Direction
    category: MemoryCategory
    transfers: int
    moved_bytes: int
    busy_ns: int
    """How long at least one of them was under way."""
    exposed_ns: int
    queue_depth: int
    """Most that were under way at once."""


@dataclass(frozen=True, kw_only=True)
class StepFacts:
    """One optimizer step as it was, applied or skipped."""

    step: int
    applied: bool
    skip_reason: SkipReason | None
    loss: Callable[[], float | None]
    """To be called by whoever needs it, and once the times are known: a device may have to be
    waited for."""
    gradient_norm: float | None
    """The global norm after unscaling, before clipping; inf or NaN on a skipped step.
    None where nobody computed it."""
    clip_coefficient: float | None
    """What clipping multiplied the gradients by; None without clipping or on a skipped step."""
    loss_scale_used: float
    loss_scale_next: float
    hysteresis_left: int | None
    learning_rates: tuple[float, ...]
    micro_batches: int
    began_ns: int
    wall_ns: int
    phase_ns: Mapping[Phase, int]
    recompute_ns: int
    """Part of backward in which blocks were computed again."""
    offload: tuple[OffloadFacts, ...] = ()
    on_device: OnDevice | None = None
    """The same step as the device will have seen it; the times above are the host's."""


@dataclass(frozen=True, kw_only=True)
class CheckpointFacts:
    """A checkpoint that this rank saved its part of, or loaded."""

    kind: EventKind
    tag: str
    began_ns: int
    duration_ns: int
    """Until it was wholly on disk; an asynchronous one goes on beside the steps."""
    blocking_ns: int
    """How long the training stood still for it."""
    size_bytes: int
    """Of this rank's tensors where it was saved, of all where it was loaded."""


class Observer(Protocol):
    """Whoever wants to know."""

    def step_began(self, step: int) -> None:
        """Step number `step` starts, counted from zero."""

    def gradients_ready(self) -> None:
        """All gradients are there and none is freed yet: the most that a step holds."""

    def step_ended(self, facts: StepFacts) -> None:
        """The step is over on this rank."""

    def collective_done(self, facts: CollectiveFacts) -> None:
        """A collective's result is there."""

    def overflow_found(self, facts: OverflowFacts) -> None:
        """The step will be skipped."""

    def checkpoint_done(self, facts: CheckpointFacts) -> None:
        """A checkpoint was saved or loaded; told by a thread if it was saved asynchronously."""


class Silence:
    """The observer that does nothing."""

    def step_began(self, step: int) -> None:
        """Nothing."""

    def gradients_ready(self) -> None:
        """Nothing."""

    def step_ended(self, facts: StepFacts) -> None:
        """Nothing."""

    def collective_done(self, facts: CollectiveFacts) -> None:
        """Nothing."""

    def overflow_found(self, facts: OverflowFacts) -> None:
        """Nothing."""

    def checkpoint_done(self, facts: CheckpointFacts) -> None:
        """Nothing."""
