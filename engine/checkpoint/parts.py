"""What of an engine goes into a checkpoint and comes out of one, and whom it is told to."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.nn import Module

from engine.checkpoint.documents import Counters
from engine.checkpoint.own_state import Remembered
from engine.collectives import Collectives
from engine.config.policies import Config
from engine.facts import CheckpointFacts
from engine.loss_scale import LossScaler
from engine.partition import Member
from engine.stages import Stage
from engine.tracing import PhaseClock
from engine.update import Update
from probe.schema.vocabulary import EventKind


@dataclass(frozen=True, kw_only=True)
class Parts:
    """All of an engine that a checkpoint is made of."""

    module: Module
    config: Config
    members: list[Member]
    stage: Stage
    update: Update | None
    scaler: LossScaler
    schedule: Any | None
    collectives: Collectives
    clock: PhaseClock
    device: torch.device
    counters: Callable[[], Counters | None]
    """How far the training is; None in the middle of a step."""
    begin_at: Callable[[Counters], None]
    """Go on from there."""
    remembered: Remembered = field(default_factory=Remembered)
    """What the script asked to keep."""


@dataclass(frozen=True, kw_only=True)
class Times:
    """Three moments of a save or a load."""

    began_ns: int
    free_ns: int
    """The training went on."""
    ended_ns: int


def tell(parts: Parts, kind: EventKind, tag: str, times: Times, size_bytes: int) -> None:
    """Tell the observer of a checkpoint."""
    parts.collectives.observer.checkpoint_done(
        CheckpointFacts(
            kind=kind,
            tag=tag,
            began_ns=times.began_ns,
            duration_ns=times.ended_ns - times.began_ns,
            blocking_ns=times.free_ns - times.began_ns,
            size_bytes=size_bytes,
        )
    )
