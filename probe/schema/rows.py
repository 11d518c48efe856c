"""The rows that a rank writes: name, type, unit and meaning of each column, stated only here.

Writer, reader types, Parquet columns, the field table of this folder's README and the round-trip
test all derive from these classes. To add a measure: one field here, one line in the observer.
Facts only: raw nanoseconds, bytes, elements and flags; rates and verdicts belong to the analysis.
The rank is not a field: it is the folder that a row lies in, and the reader puts it in front.
A new field needs a default, so that older runs still read; None says "there was none".
"""

from typing import Annotated

import msgspec

from probe.schema.columns import (
    Int,
    byte_count,
    count,
    elements,
    flag,
    index,
    nanoseconds,
    number,
    text,
)
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


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a table."""


class RankRow(Row, frozen=True, kw_only=True):
    """One that a rank appends while it trains, and after a restart appends anew."""

    attempt: Annotated[
        Int, count("Restarts of this rank before the row; of a step done again the last one counts")
    ] = 0


class StepRow(RankRow, frozen=True, kw_only=True):
    """One optimizer step of one rank, applied or skipped: how long, what scale, what came out."""

    step: Annotated[Int, index("Attempted optimizer step, skipped ones included")]
    begin_ns: Annotated[Int, nanoseconds("Begin of the step on the rank's monotonic clock")]
    wall_ns: Annotated[
        Int, nanoseconds("Wall time since the last step ended; its phases sum to it")
    ]
    data_ns: Annotated[Int, nanoseconds("Waiting for the next batch")] = 0
    forward_ns: Annotated[Int, nanoseconds("Computing the forward pass")] = 0
    backward_ns: Annotated[
        Int, nanoseconds("Computing the backward pass, recomputation included")
    ] = 0
    gather_wait_ns: Annotated[
        Int, nanoseconds("Compute stood still for parameters to be gathered")
    ] = 0
    reduce_wait_ns: Annotated[
        Int, nanoseconds("Compute stood still for gradients to be reduced")
    ] = 0
    optimizer_ns: Annotated[Int, nanoseconds("Norm, clipping and update of the parameters")] = 0
    offload_wait_ns: Annotated[Int, nanoseconds("Compute stood still for host or disk")] = 0
    checkpoint_ns: Annotated[
        Int,
        nanoseconds(
            "Saving or loading checkpoints since the last step ended, as far as training waited"
        ),
    ] = 0
    other_ns: Annotated[Int, nanoseconds("What no phase claims")] = 0
    recompute_ns: Annotated[Int, nanoseconds("Part of backward spent on recomputed forwards")] = 0
    micro_batches: Annotated[
        Int, count("Forward and backward passes accumulated into the step")
    ] = 1
    samples: Annotated[Int | None, count("Samples that this rank consumed in the step")] = None
    tokens: Annotated[Int | None, count("Tokens that this rank consumed in the step")] = None
    loss: Annotated[float | None, number("Mean loss of the step's micro-batches on this rank")] = (
        None
    )
    lr: Annotated[
        float | None, number("Learning rate of the first parameter group in this step")
    ] = None
    grad_norm: Annotated[
        float | None, number("Global gradient norm, unscaled, before clipping")
    ] = None
    clip_coefficient: Annotated[
        float | None, number("Factor that clipping applied; 1 if it did not bind")
    ] = None
    loss_scale: Annotated[float | None, number("Loss scale used in this step's backward")] = None
    loss_scale_next: Annotated[float | None, number("Loss scale after this step's update")] = None
    hysteresis_left: Annotated[
        Int | None, count("Overflows still tolerated before the scale falls")
    ] = None
    skipped: Annotated[bool, flag("The parameters were left as they were")] = False
    skip_reason: Annotated[SkipReason | None, text("Why the step was skipped")] = None
    profiled: Annotated[
        bool, flag("Within the profiled window or beside it; excluded from every statistic")
    ] = False


class CommRow(RankRow, frozen=True, kw_only=True):
    """All collectives of one operation in one phase of one step, added up."""

    step: Annotated[Int, index("Attempted optimizer step")]
    phase: Annotated[Phase, text("Phase of the step that issued the collectives")]
    op: Annotated[CollectiveOp, text("Operation that was asked for")]
    wire_op: Annotated[CollectiveOp, text("Operation that the backend really ran")]
    group: Annotated[str, text("Name of the process group")] = "world"
    group_size: Annotated[Int, count("Ranks in the group")] = 1
    dtype: Annotated[str, text("Type of the elements on the wire")] = ""
    calls: Annotated[Int, count("Number of collectives")] = 0
    logical_bytes: Annotated[
        Int,
        byte_count(
            "Payload S as nccl-tests count it: all-reduce the tensor, reduce-scatter the whole "
            "input, all-gather the whole output"
        ),
    ] = 0
    wire_bytes: Annotated[
        Int, byte_count("Bytes that this rank sent, by the algorithm really used")
    ] = 0
    busy_ns: Annotated[
        Int, nanoseconds("Time with at least one of these collectives under way")
    ] = 0
    exposed_ns: Annotated[
        Int, nanoseconds("Part of the busy time in which compute stood still")
    ] = 0


class CommCallRow(RankRow, frozen=True, kw_only=True):
    """One collective of a sampled step, timed on its own."""

    step: Annotated[Int, index("Attempted optimizer step")]
    sequence: Annotated[
        Int, index("Position among the group's collectives since the start; equal on all")
    ]
    phase: Annotated[Phase, text("Phase of the step that issued the collective")]
    op: Annotated[CollectiveOp, text("Operation that was asked for")]
    wire_op: Annotated[CollectiveOp, text("Operation that the backend really ran")]
    group: Annotated[str, text("Name of the process group")] = "world"
    group_size: Annotated[Int, count("Ranks in the group")] = 1
    dtype: Annotated[str, text("Type of the elements on the wire")] = ""
    block: Annotated[str | None, text("Block of the model that the collective served")] = None
    logical_bytes: Annotated[Int, byte_count("Payload S as nccl-tests count it")] = 0
    wire_bytes: Annotated[Int, byte_count("Bytes that this rank sent")] = 0
    enqueue_ns: Annotated[Int, nanoseconds("Moment of the call on the rank's monotonic clock")] = 0
    start_ns: Annotated[
        Int,
        nanoseconds(
            "Moment at which this rank began to wait for it; in a trace, its kernel's begin"
        ),
    ] = 0
    end_ns: Annotated[Int, nanoseconds("Moment at which it was complete on this rank")] = 0
    exposed_ns: Annotated[Int, nanoseconds("Time that compute stood still for it")] = 0


class MemoryRow(RankRow, frozen=True, kw_only=True):
    """The memory ledger of one step: each category at its largest, and what the allocator saw."""

    step: Annotated[Int, index("Attempted optimizer step")]
    device_params_bytes: Annotated[Int, byte_count("Parameters that rest on the device")] = 0
    device_gathered_params_bytes: Annotated[Int, byte_count("Parameters gathered for use")] = 0
    device_grads_bytes: Annotated[Int, byte_count("Gradients that are kept")] = 0
    device_grad_buckets_bytes: Annotated[
        Int, byte_count("Gradients on their way to be reduced")
    ] = 0
    device_master_params_bytes: Annotated[Int, byte_count("fp32 master weights")] = 0
    device_optimizer_states_bytes: Annotated[Int, byte_count("Momentum, variance and the like")] = 0
    device_activations_bytes: Annotated[Int, byte_count("Saved between forward and backward")] = 0
    device_comm_buffers_bytes: Annotated[Int, byte_count("Buffers of collectives")] = 0
    device_other_bytes: Annotated[Int, byte_count("Held and in no other category")] = 0
    host_params_bytes: Annotated[Int, byte_count("Parameters offloaded to host memory")] = 0
    host_grads_bytes: Annotated[Int, byte_count("Gradients offloaded to host memory")] = 0
    host_master_params_bytes: Annotated[Int, byte_count("fp32 master weights in host memory")] = 0
    host_optimizer_states_bytes: Annotated[Int, byte_count("Optimizer states in host memory")] = 0
    host_activations_bytes: Annotated[Int, byte_count("Activations offloaded to host memory")] = 0
    host_comm_buffers_bytes: Annotated[Int, byte_count("Staging buffers in host memory")] = 0
    disk_params_bytes: Annotated[Int, byte_count("Parameters offloaded to disk")] = 0
    disk_grads_bytes: Annotated[Int, byte_count("Gradients offloaded to disk")] = 0
    disk_master_params_bytes: Annotated[Int, byte_count("fp32 master weights on disk")] = 0
    disk_optimizer_states_bytes: Annotated[Int, byte_count("Optimizer states on disk")] = 0
    allocated_bytes: Annotated[
        Int | None, byte_count("Allocated by the device allocator at the end")
    ] = None
    reserved_bytes: Annotated[
        Int | None, byte_count("Reserved by the device allocator at the end")
    ] = None
    peak_allocated_bytes: Annotated[
        Int | None, byte_count("Most allocated up to the end of the step, since the start")
    ] = None
    peak_reserved_bytes: Annotated[
        Int | None, byte_count("Most reserved up to the end of the step, since the start")
    ] = None
    allocator_retries: Annotated[
        Int | None, count("Allocations retried after a cache flush, in all")
    ] = None
    rss_bytes: Annotated[Int | None, byte_count("Resident memory of the process at the end")] = None
    peak_rss_bytes: Annotated[Int | None, byte_count("Largest resident memory since the start")] = (
        None
    )


class OverflowRow(RankRow, frozen=True, kw_only=True):
    """One tensor that became infinite or no number."""

    step: Annotated[Int, index("Attempted optimizer step")]
    role: Annotated[TensorRole, text("Gradient, weight, output or loss")]
    kind: Annotated[NonFinite, text("inf, nan or both")]
    micro_batch: Annotated[Int | None, index("Micro-batch of the step in which it came first")] = (
        None
    )
    parameter: Annotated[str | None, text("Name of the parameter, for a gradient or a weight")] = (
        None
    )
    module: Annotated[str | None, text("Name of the module whose output or parameter it is")] = None
    phase: Annotated[Phase | None, text("Phase in which it was found")] = None
    nonfinite_elements: Annotated[Int | None, elements("Elements that are inf or nan")] = None
    tensor_elements: Annotated[Int | None, elements("Elements of the tensor")] = None
    largest_finite: Annotated[
        float | None, number("Largest finite magnitude in the tensor, as stored")
    ] = None
    loss_scale: Annotated[float | None, number("Loss scale used in the step")] = None
    first: Annotated[bool, flag("The first offender of the step on this rank")] = False


class NumericsRow(RankRow, frozen=True, kw_only=True):
    """The exponents of one parameter's gradient or weight in a sampled step."""

    step: Annotated[Int, index("Attempted optimizer step")]
    parameter: Annotated[str, text("Name of the parameter")]
    role: Annotated[TensorRole, text("Gradient or weight")]
    block: Annotated[str | None, text("Block of the model that the parameter belongs to")] = None
    dtype: Annotated[str, text("Type that the histogram judges against")] = ""
    tensor_elements: Annotated[Int, elements("Elements looked at")] = 0
    zero_elements: Annotated[Int, elements("Exactly zero")] = 0
    subnormal_elements: Annotated[
        Int, elements("Subnormal in the 16-bit type, at the scale in use")
    ] = 0
    underflow_elements: Annotated[Int, elements("Not zero, and zero in the 16-bit type")] = 0
    nonfinite_elements: Annotated[Int, elements("inf or nan")] = 0
    largest_magnitude: Annotated[
        float | None, number("Largest finite magnitude, at the scale in use")
    ] = None
    lost_update_elements: Annotated[
        Int | None, elements("Weights whose update vanished in the rounding to 16 bit")
    ] = None
    lowest_exponent: Annotated[Int, index("Power of two of the first bin of the histogram")] = 0
    exponent_elements: Annotated[
        list[Int], elements("Histogram: elements in each power of two")
    ] = msgspec.field(default_factory=list)
    loss_scale: Annotated[float | None, number("Loss scale that the magnitudes carry")] = None


class OffloadRow(RankRow, frozen=True, kw_only=True):
    """All transfers of one category in one direction between the device and a tier, in one step."""

    step: Annotated[Int, index("Attempted optimizer step")]
    tier: Annotated[Tier, text("Host or disk")]
    direction: Annotated[Direction, text("fetch: towards the device; store: away from it")]
    category: Annotated[MemoryCategory, text("What was moved")]
    transfers: Annotated[Int, count("Number of transfers")] = 0
    moved_bytes: Annotated[
        Int, byte_count("Bytes moved; handed over in place where the busy time is zero")
    ] = 0
    busy_ns: Annotated[
        Int,
        nanoseconds("Time with at least one of these under way; zero where memory is the same"),
    ] = 0
    exposed_ns: Annotated[
        Int, nanoseconds("Part of the busy time in which compute stood still")
    ] = 0
    queue_depth: Annotated[Int | None, count("Most transfers under way at once")] = None


class EventRow(RankRow, frozen=True, kw_only=True):
    """Something that happened once: a checkpoint, a region, a warning, the end."""

    time_ns: Annotated[Int, nanoseconds("Moment on the rank's monotonic clock")]
    kind: Annotated[EventKind, text("What happened")]
    step: Annotated[Int | None, index("Attempted optimizer step, if it happened in one")] = None
    name: Annotated[str, text("Name of the region, the checkpoint, the exception")] = ""
    message: Annotated[str, text("One sentence for people")] = ""
    duration_ns: Annotated[Int | None, nanoseconds("How long it took")] = None
    blocking_ns: Annotated[Int | None, nanoseconds("How long the training stood still for it")] = (
        None
    )
    size_bytes: Annotated[Int | None, byte_count("How large it was")] = None


class MetricRow(RankRow, frozen=True, kw_only=True):
    """One number that the user logged."""

    step: Annotated[Int, index("Attempted optimizer step")]
    name: Annotated[str, text("Name that the user gave")]
    value: Annotated[float, number("Value that the user gave")]
    time_ns: Annotated[Int | None, nanoseconds("Moment on the rank's monotonic clock")] = None
