"""What a rule has to say: evidence, what to change, what that should bring, and where to look.

A finding without numbers is no finding. Gains are bounds, worked out from the run itself: what the
cause took, if it vanished and nothing else changed.
"""

from dataclasses import dataclass
from enum import StrEnum


class View(StrEnum):
    """The page that shows the evidence."""

    STEPS = "steps"
    PRECISION = "precision"
    MEMORY = "memory"
    COMMUNICATION = "communication"
    OFFLOAD = "offload"


class GainKind(StrEnum):
    """What becomes less or better."""

    TIME = "time"
    """Share of the wall time of a step, or of the run where skips are meant."""
    MEMORY = "memory"
    """Share of the fullest rank's peak."""
    TRUST = "trust"
    """Nothing becomes faster or smaller: results become right, or can be relied on."""


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """One number that was found, as people read it."""

    name: str
    value: str


@dataclass(frozen=True, kw_only=True)
class Change:
    """One thing to change."""

    setting: str
    """The exact flag, configuration key, variable or argument, with its new value."""
    why: str


@dataclass(frozen=True, kw_only=True)
class Gain:
    """What the change should bring."""

    kind: GainKind
    share: float
    """At most this part of the time or the memory; 0 for trust."""
    how: str
    """How the share was worked out."""


@dataclass(frozen=True, kw_only=True)
class Link:
    """Where to look."""

    view: View
    first_step: int | None = None
    last_step: int | None = None


@dataclass(frozen=True, kw_only=True)
class Finding:
    """Something that stands out."""

    id: str
    title: str
    """One sentence, with the number that matters most."""
    evidence: tuple[Evidence, ...]
    changes: tuple[Change, ...]
    """The first is the one to try first."""
    gain: Gain
    link: Link

    def __post_init__(self) -> None:
        assert self.evidence, f"{self.id} shows no evidence"
        assert self.changes, f"{self.id} says nothing to change"
