"""The small documents of a run: its manifest, a rank's header and heartbeat, other machines' facts.

Each has one writer (a launcher or a rank), and each field a default: what is missing or damaged
takes nothing else with it. Names and texts in them come from strangers and are only ever shown.
"""

from typing import Any

import msgspec

from probe.schema.columns import Int
from probe.schema.layout import FORMAT_VERSION
from probe.schema.vocabulary import (
    CollectiveOp,
    Phase,
    Precision,
    ProfileDetail,
    RankState,
    RunStatus,
    Tier,
)


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """Facts that are written whole."""


class RunConfig(Document, frozen=True, kw_only=True):
    """The axes along which runs are compared, and every setting as it was resolved."""

    precision: Precision | None = None
    stage: Int | None = None
    """ZeRO stage; None for an engine that has no such notion."""
    offload_optimizer: Tier = Tier.DEVICE
    offload_params: Tier = Tier.DEVICE
    train_batch_samples: Int | None = None
    micro_batch_samples: Int | None = None
    accumulation_steps: Int | None = None
    settings: dict[str, Any] = {}
    """Every other setting, with dotted names, as resolved."""


class ModelFacts(Document, frozen=True, kw_only=True):
    """What closed forms of memory, traffic and work need to know of a model."""

    name: str = ""
    param_elements: Int | None = None
    trainable_elements: Int | None = None
    buffer_bytes: Int | None = None
    layers: Int | None = None
    hidden: Int | None = None
    heads: Int | None = None
    sequence: Int | None = None
    vocabulary: Int | None = None
    flops_per_sample: float | None = None
    """Floating-point operations of one forward and backward pass of one sample."""


class HostFacts(Document, frozen=True, kw_only=True):
    """A machine that ran ranks."""

    name: str = ""
    cpu: str = ""
    cores: Int | None = None
    memory_bytes: Int | None = None
    system: str = ""


class DeviceFacts(Document, frozen=True, kw_only=True):
    """A device that ranks computed on."""

    name: str = ""
    kind: str = ""
    memory_bytes: Int | None = None
    count: Int = 1


class GitFacts(Document, frozen=True, kw_only=True):
    """The state of the user's code."""

    commit: str = ""
    branch: str = ""
    dirty: bool | None = None


class Hang(Document, frozen=True, kw_only=True):
    """A time at which ranks no longer moved, as the launcher saw it."""

    time_ns: Int = 0
    """Wall clock, ns since 1970."""
    step: Int | None = None
    waiting: list[Int] = []
    """Ranks that stood in a collective."""
    awaited: list[Int] = []
    """Ranks that had not entered it."""
    still_s: float = 0.0
    """How long the rank had not moved that had not moved for longest."""
    message: str = ""
    """Who waited for whom in which collective, in one sentence."""


class Manifest(Document, frozen=True, kw_only=True):
    """Who, what, where and how; written by the launcher at the start and at the end."""

    format_version: str = FORMAT_VERSION
    run_id: str = ""
    name: str = ""
    tags: list[str] = []
    notes: str = ""
    recorder: str = "zeroprobe"
    """What wrote the run: our engine, or another engine under our recorder."""
    status: RunStatus = RunStatus.RUNNING
    started_ns: Int | None = None
    """Wall clock, ns since 1970."""
    ended_ns: Int | None = None
    command: list[str] = []
    parent: str = ""
    """The run that this one goes on from, by its id."""
    resumed_from: str = ""
    """The checkpoint that this run began with."""
    script: str = ""
    script_sha256: str = ""
    world_size: Int = 1
    backend: str = ""
    expected_steps: Int | None = None
    config: RunConfig = RunConfig()
    model: ModelFacts = ModelFacts()
    hosts: list[HostFacts] = []
    devices: list[DeviceFacts] = []
    versions: dict[str, str] = {}
    git: GitFacts = GitFacts()
    seeds: dict[str, Int] = {}
    environment: dict[str, str] = {}
    """Only variables of an allow-list."""
    exit_codes: dict[str, Int] = {}
    """By rank; a negative number is the signal that ended it."""
    hangs: list[Hang] = []
    awaited_nodes: list[Int] = []
    """Machines that had not said how they ended when the first one went; the last of them seals."""
    lost: list[str] = []
    """What could not be recorded, in sentences."""


class NodeFacts(Document, frozen=True, kw_only=True):
    """A machine that joined a run which another one began; written by its own launcher."""

    run_id: str = ""
    node: Int = 0
    status: RunStatus = RunStatus.RUNNING
    started_ns: Int | None = None
    """Wall clock of that machine, ns since 1970."""
    ended_ns: Int | None = None
    host: HostFacts = HostFacts()
    versions: dict[str, str] = {}
    exit_codes: dict[str, Int] = {}
    """Of its own ranks, by their number in the whole run."""


class Remark(Document, frozen=True, kw_only=True):
    """What people wrote about a run at one time."""

    tags: list[str] = []
    notes: str = ""


class Remarks(Document, frozen=True, kw_only=True):
    """Tags and notes that were changed after the run was started, beside those of its manifest.

    Written by whoever reads the run, never by launcher or ranks: every file has one writer."""

    now: Remark | None = None
    """None where the manifest's hold."""
    before: list[Remark | None] = []
    """What undoing comes back to, the last change last."""


class Clock(Document, frozen=True, kw_only=True):
    """One moment on both clocks of a rank: the bridge from its monotonic times to dates."""

    wall_ns: Int = 0
    monotonic_ns: Int = 0


class Header(Document, frozen=True, kw_only=True):
    """Where a rank ran, and the names its rows may speak of."""

    format_version: str = FORMAT_VERSION
    rank: Int = 0
    local_rank: Int = 0
    node: Int = 0
    """The number that its machine was started with."""
    attempt: Int = 0
    """How often this rank had been started before in the same run."""
    host: str = ""
    pid: Int | None = None
    device: str = ""
    clock: Clock = Clock()
    engine: str = ""
    """Which engine this rank runs; empty until one was built."""
    config: RunConfig | None = None
    """As the engine resolved it; the launcher copies rank 0's into the manifest."""
    model: ModelFacts | None = None
    versions: dict[str, str] = {}
    seeds: dict[str, Int] = {}
    parameters: list[str] = []
    blocks: list[str] = []


class ProfileWindow(Document, frozen=True, kw_only=True):
    """The steps to look at with the profiler, and on which ranks."""

    first_step: Int = 0
    end_step: Int = 0
    """One past the last step."""
    ranks: list[Int] = []
    details: list[ProfileDetail] = []


class LastCollective(Document, frozen=True, kw_only=True):
    """The collective that a rank entered last."""

    sequence: Int = 0
    op: CollectiveOp | None = None
    block: str = ""
    done: bool = False


class Heartbeat(Document, frozen=True, kw_only=True):
    """The last sign of life of a rank: where it stood and when."""

    state: RankState = RankState.ALIVE
    time_ns: Int = 0
    """Wall clock, ns since 1970."""
    step: Int | None = None
    phase: Phase | None = None
    step_wall_ns: Int | None = None
    """Wall time of the last whole step: what makes a long silence long."""
    collective: LastCollective | None = None
    message: str = ""
