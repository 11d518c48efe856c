"""One word per idea: the closed sets that engine, rows, figures and pages share.

A phase is called the same in `record_function`, in a column name, in a legend and in a finding.
Adding a member is a minor change of the format; renaming or removing one is a major change.
"""

from enum import StrEnum

RSS_METRIC = "rss_bytes"
"""What a rank logs of itself until an engine is built: no metric of the user's."""


class Phase(StrEnum):
    """Where the wall time of a step went; the phases of a step are additive and sum to it."""

    DATA = "data"
    FORWARD = "forward"
    BACKWARD = "backward"
    GATHER_WAIT = "gather_wait"
    REDUCE_WAIT = "reduce_wait"
    OPTIMIZER = "optimizer"
    OFFLOAD_WAIT = "offload_wait"
    CHECKPOINT = "checkpoint"
    OTHER = "other"


class CollectiveOp(StrEnum):
    """A collective operation, named as torch.distributed and nccl-tests do."""

    ALL_REDUCE = "all_reduce"
    REDUCE_SCATTER = "reduce_scatter"
    ALL_GATHER = "all_gather"
    ALL_TO_ALL = "all_to_all"
    BROADCAST = "broadcast"
    REDUCE = "reduce"
    GATHER = "gather"
    SCATTER = "scatter"
    BARRIER = "barrier"
    SEND = "send"
    RECV = "recv"


class MemoryCategory(StrEnum):
    """What a byte of the ledger is held for."""

    PARAMS = "params"
    GATHERED_PARAMS = "gathered_params"
    GRADS = "grads"
    GRAD_BUCKETS = "grad_buckets"
    MASTER_PARAMS = "master_params"
    OPTIMIZER_STATES = "optimizer_states"
    ACTIVATIONS = "activations"
    COMM_BUFFERS = "comm_buffers"
    OTHER = "other"


class Tier(StrEnum):
    """Where bytes rest."""

    DEVICE = "device"
    HOST = "host"
    DISK = "disk"


class Direction(StrEnum):
    """Which way offload traffic flows, seen from the device."""

    FETCH = "fetch"
    STORE = "store"


class Precision(StrEnum):
    """How the model computes: 16-bit weights with fp32 master weights, or autocast over fp32."""

    FP32 = "fp32"
    FP16 = "fp16"
    BF16 = "bf16"
    AMP_FP16 = "amp_fp16"
    AMP_BF16 = "amp_bf16"


class NonFinite(StrEnum):
    """The kind of a value that is no number."""

    INF = "inf"
    NAN = "nan"
    BOTH = "both"


class TensorRole(StrEnum):
    """Which tensor of a parameter or module a row speaks of."""

    GRADIENT = "gradient"
    WEIGHT = "weight"
    OUTPUT = "output"
    LOSS = "loss"


class SkipReason(StrEnum):
    """Why a step left the parameters as they were."""

    OVERFLOW = "overflow"
    NO_GRADIENT = "no_gradient"


class EventKind(StrEnum):
    """What happened at a moment, as opposed to in every step."""

    STARTED = "started"
    RESUMED = "resumed"
    REGION = "region"
    CHECKPOINT_SAVED = "checkpoint_saved"
    CHECKPOINT_LOADED = "checkpoint_loaded"
    PROFILE_WINDOW = "profile_window"
    OFFLOAD = "offload"
    """Where state rests, and what that tier was measured to do."""
    SCALE_AT_MINIMUM = "scale_at_minimum"
    HANG = "hang"
    WARNING = "warning"
    RECORDING_STOPPED = "recording_stopped"
    EXCEPTION = "exception"
    INTERRUPTED = "interrupted"
    FINISHED = "finished"


class RunStatus(StrEnum):
    """What became of a run; the reader concludes it from all the evidence, not from one file."""

    RUNNING = "running"
    FINISHED = "finished"
    FAILED = "failed"
    KILLED = "killed"
    INTERRUPTED = "interrupted"
    STALLED = "stalled"
    UNKNOWN = "unknown"


class RankState(StrEnum):
    """What a rank last said of itself in its heartbeat."""

    ALIVE = "alive"
    CLOSED = "closed"
    FAILED = "failed"


class ProfileDetail(StrEnum):
    """What a profiled window records beside the events, at a price."""

    SHAPES = "shapes"
    MEMORY = "memory"
    STACKS = "stacks"


class TraceCategory(StrEnum):
    """What an event of a profiler's trace is, whatever the device and the age of the profiler."""

    OPERATOR = "operator"
    ANNOTATION = "annotation"
    MODULE = "module"
    LAUNCH = "launch"
    KERNEL = "kernel"
    COPY = "copy"
    FILL = "fill"
    DEVICE_ANNOTATION = "device_annotation"
    SYNC = "sync"
    OVERHEAD = "overhead"
    OTHER = "other"


class Severity(StrEnum):
    """How much a problem in a run directory takes away from what can be read."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"
