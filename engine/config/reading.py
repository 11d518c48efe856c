"""What has been read of a configuration so far; each step of reading adds to it."""

from dataclasses import dataclass, field
from typing import Any

from engine.config.keys import KEYS
from engine.config.policies import LossScalePolicy


@dataclass(kw_only=True)
class Reading:
    """Values by path, and what there is to say about them."""

    values: dict[str, Any] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    """Why it cannot be used."""
    notes: list[str] = field(default_factory=list)
    """What is understood in another way than written, or not needed."""
    overrides: list[str] = field(default_factory=list)
    """What the command line changed."""
    flagged: set[str] = field(default_factory=set)
    """Paths whose value came from the command line."""
    loss_scale: LossScalePolicy | None = None
    """The policy itself, where a `Config` was given."""

    def on(self, path: str) -> bool:
        return self.values.get(path) is True

    def landed(self, room: str) -> dict[str, Any]:
        """The values whose keys set a field of this room of `Config`, by field."""
        fields = {}
        for path, value in self.values.items():
            if path in KEYS and KEYS[path].direct:
                owner, _, name = KEYS[path].lands.rpartition(".")
                if owner == room:
                    fields[name] = value
        return fields
