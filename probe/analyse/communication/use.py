"""What the ranks sent each other in the steps that count, by operation and phase.

Bandwidths are those of nccl-tests, so that they compare with its tables: algbw = S/t, busbw =
algbw × 2(n-1)/n for all-reduce and × (n-1)/n for reduce-scatter, all-gather and all-to-all, where n
is the size of the group and S the payload of the operation that was asked for. t is busy time: with
at least one such collective under way. Exposed time is the part in which compute stood still; what
is not exposed is overlapped. Figures a step are means over ranks and counted steps.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from probe.analyse.steps.steps import CountedSteps
from probe.analyse.steps.traffic_by_kind import traffic_by_kind
from probe.schema.vocabulary import CollectiveOp

COMM_COLUMNS = (
    "rank",
    "step",
    "phase",
    "op",
    "wire_op",
    "group",
    "group_size",
    "dtype",
    "calls",
    "logical_bytes",
    "wire_bytes",
    "busy_ns",
    "exposed_ns",
)
"""Columns of the comm table that `communication` reads."""

_SHARED = {
    CollectiveOp.REDUCE_SCATTER.value,
    CollectiveOp.ALL_GATHER.value,
    CollectiveOp.ALL_TO_ALL.value,
}

SIXTEEN_BIT = frozenset({"fp16", "bf16", "float16", "bfloat16"})
"""As engines and the profiler spell them."""


@dataclass(frozen=True, kw_only=True)
class OperationTraffic:
    """One operation in one phase on one kind of group, on one rank in one step."""

    phase: str
    op: str
    wire_op: str
    group_size: int
    dtype: str
    calls: float
    logical_bytes: float
    wire_bytes: float
    busy_ns: float
    exposed_ns: float
    exposed_error_ns: float
    """Standard error of the exposed time, over steps."""

    @property
    def algbw_bytes_per_s(self) -> float | None:
        """S/t of nccl-tests; None if no time was taken."""
        return self.logical_bytes / self.busy_ns * 1e9 if self.busy_ns else None

    @property
    def busbw_bytes_per_s(self) -> float | None:
        """algbw by the factor of nccl-tests: what each link had to carry."""
        algbw = self.algbw_bytes_per_s
        return None if algbw is None else algbw * bus_factor(self.op, self.group_size)

    @property
    def exposed_share(self) -> float | None:
        """Exposed over busy time."""
        return self.exposed_ns / self.busy_ns if self.busy_ns else None

    @property
    def bytes_per_call(self) -> float | None:
        """Mean payload of a collective."""
        return self.logical_bytes / self.calls if self.calls else None


@dataclass(frozen=True, kw_only=True)
class Communication:
    """All operations of a usual step of one rank."""

    operations: tuple[OperationTraffic, ...]
    """Most exposed time first."""
    calls: float
    logical_bytes: float
    wire_bytes: float
    busy_ns: float
    """Sum over operations; those that ran at the same time count each."""
    exposed_ns: float
    exposed_step_share: float | None
    """Exposed time over the wall time of the counted steps."""

    @property
    def overlap_share(self) -> float | None:
        """Busy time that was hidden under compute, over busy time."""
        return 1 - self.exposed_ns / self.busy_ns if self.busy_ns else None

    @property
    def sixteen_bit_share(self) -> float | None:
        """Payload of 16-bit elements over all payload."""
        of_16_bit = sum(item.logical_bytes for item in self.operations if item.dtype in SIXTEEN_BIT)
        return of_16_bit / self.logical_bytes if self.logical_bytes else None


def communication(comm: pa.Table, counted: CountedSteps) -> Communication | None:
    """None without a row in a step that counts."""
    found = traffic_by_kind(
        comm,
        counted,
        keys=["phase", "op", "wire_op", "group_size", "dtype"],
        rows_differ_by=["group"],
        means=["calls", "logical_bytes", "wire_bytes", "busy_ns", "exposed_ns"],
    )
    if not found:
        return None
    operations = [OperationTraffic(**item) for item in found]
    operations.sort(key=lambda item: (-item.exposed_ns, item.phase, item.op))
    exposed_ns = sum(item.exposed_ns for item in operations)
    wall_ns = float(np.mean(counted.wall_ns))
    return Communication(
        operations=tuple(operations),
        calls=sum(item.calls for item in operations),
        logical_bytes=sum(item.logical_bytes for item in operations),
        wire_bytes=sum(item.wire_bytes for item in operations),
        busy_ns=sum(item.busy_ns for item in operations),
        exposed_ns=exposed_ns,
        exposed_step_share=exposed_ns / wall_ns if wall_ns else None,
    )


def bus_factor(op: str, group_size: int) -> float:
    """What turns algbw into busbw, as nccl-tests define it; 1 for operations that it has not."""
    if op == CollectiveOp.ALL_REDUCE.value:
        return 2 * (group_size - 1) / group_size
    return (group_size - 1) / group_size if op in _SHARED else 1.0
