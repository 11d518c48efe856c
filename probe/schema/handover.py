"""What the launcher hands to the ranks through the environment: where to record, and the flags.

The two sides never import each other; this document and the two names are all they share.
"""

from typing import Any

import msgspec

from probe.schema.codec import decode_document, encode_document
from probe.schema.columns import Int
from probe.schema.documents import Document, ProfileWindow
from probe.schema.vocabulary import Precision, Tier

HANDOVER_VARIABLE = "PROBE_HANDOVER"
NUMERICS_EVERY_STEPS = 100


class RunFlags(Document, frozen=True, kw_only=True):
    """Choices made on the command line; None leaves the choice to the script or its config."""

    stage: Int | None = None
    precision: Precision | None = None
    offload_optimizer: Tier | None = None
    offload_params: Tier | None = None
    disk_path: str | None = None
    accumulation_steps: Int | None = None
    clip_norm: float | None = None
    checkpoint_dir: str | None = None
    checkpoint_every_steps: Int | None = None
    checkpoint_keep_last: Int | None = None
    checkpoint_asynchronous: bool | None = None
    resume: str | None = None
    """Path of a checkpoint."""
    checkpoint_every_block: Int | None = None
    """0: no activations are computed again; k: those of every k-th block."""
    activations_to_host: bool | None = None

    def given(self) -> dict[str, Any]:
        """Those that were given, by name, as plain values."""
        plain: dict[str, Any] = msgspec.to_builtins(self)
        return {name: value for name, value in plain.items() if value is not None}


class Handover(Document, frozen=True, kw_only=True):
    """All that a rank learns from the launcher."""

    run_dir: str | None = None
    """None: nothing is recorded."""
    node: Int = 0
    """The number of this machine."""
    many_nodes: bool = False
    """Ranks are on several machines, and tell each other which run and which start this is."""
    runs_dir: str | None = None
    """Where that directory belongs on this machine, if it did not create it."""
    word_file: str | None = None
    """Where the first rank of such a machine leaves word of it to its launcher."""
    job: str = ""
    """What this job writes into its checkpoints, to know them when it is restarted."""
    config_path: str | None = None
    """A configuration in place of the one that the script names."""
    flags: RunFlags = RunFlags()
    profile: ProfileWindow | None = None
    """None: no step is profiled."""
    numerics_every: Int = NUMERICS_EVERY_STEPS
    """0: the exponents of gradients and weights are never looked at."""

    hang_after_s: float | None = None
    """A rank that has not moved for so long notes a hang; None: it never does."""

    def to_text(self) -> str:
        """As the value of an environment variable."""
        return encode_document(self).decode()

    @classmethod
    def from_text(cls, text: str) -> "Handover":
        """From the value of an environment variable."""
        handover, faults = decode_document(text.encode(), cls)
        assert not faults, f"{HANDOVER_VARIABLE} is written by the launcher only: {faults}"
        return handover
