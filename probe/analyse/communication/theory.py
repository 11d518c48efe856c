"""Recorded traffic beside what the stage must send, in bytes of a step of one rank.

Reductions (all-reduce and reduce-scatter) and gathers are held against the closed form of the
stage, in the type that was on the wire. What differs has a name where there is one: padding of up
to 2 %, small parameters that stage 3 keeps resident and gathers once, or an operation that the
backend replaced by one that sends more, such as gloo's reduce-scatter, which is an all-reduce.
"""

from dataclasses import dataclass
from enum import StrEnum

from probe.analyse.communication.use import Communication, OperationTraffic
from probe.analyse.memory.theory import partition_of
from probe.analyse.theory.traffic import NORM_ELEMENTS, step_traffic
from probe.schema.documents import Manifest
from probe.schema.vocabulary import CollectiveOp

PADDING_SHARE = 0.02
SMALL_BYTES = 4096
"""Collectives for norm and finite check are about as large, and left out."""

_BYTES = {"fp16": 2, "bf16": 2, "float16": 2, "bfloat16": 2, "fp32": 4, "float32": 4}


class Exchange(StrEnum):
    """The two things that ranks exchange."""

    REDUCTION = "reduction"
    GATHER = "gather"


class TrafficResidual(StrEnum):
    """Why recorded traffic differs from the closed form."""

    NONE = "none"
    PADDING = "padding"
    RESIDENT = "resident"
    """Small parameters of stage 3 that are gathered once instead of twice."""
    UNEXPLAINED = "unexplained"


_EXCHANGE = {
    CollectiveOp.ALL_REDUCE: Exchange.REDUCTION,
    CollectiveOp.REDUCE_SCATTER: Exchange.REDUCTION,
    CollectiveOp.ALL_GATHER: Exchange.GATHER,
}


@dataclass(frozen=True, kw_only=True)
class TrafficBeside:
    """One exchange, recorded and expected."""

    exchange: Exchange
    logical_bytes: float
    theory_logical_bytes: float
    wire_bytes: float
    theory_wire_bytes: float
    """Where the backend moves the true volume."""
    replaced_by: tuple[str, ...]
    """Operations that the backend ran in place of those asked for."""
    residual: TrafficResidual
    """Why the logical bytes differ."""

    @property
    def wire_excess(self) -> float | None:
        """What was sent over what a true operation would have sent for the same payload."""
        if not self.logical_bytes or not self.theory_logical_bytes:
            return None
        fair = self.theory_wire_bytes * self.logical_bytes / self.theory_logical_bytes
        return self.wire_bytes / fair if fair else None


def traffic_beside_theory(
    comm: Communication | None, manifest: Manifest
) -> tuple[TrafficBeside, ...]:
    """Both exchanges; empty if the run tells too little or has a world of one."""
    partition, model = partition_of(manifest), manifest.model
    trained = model.param_elements if model.trainable_elements is None else model.trainable_elements
    if comm is None or partition is None or not trained or partition.world < 2:
        return ()
    frozen = (model.param_elements or trained) - trained
    often = manifest.config.accumulation_steps or 1
    lines = []
    for exchange in Exchange:
        recorded = [
            item
            for item in comm.operations
            if _exchange_of(item) is exchange and (item.bytes_per_call or 0) > SMALL_BYTES
        ]
        widths = {_BYTES.get(item.dtype) for item in recorded}
        if len(widths) != 1 or None in widths:
            continue  # Several types on the wire have no one closed form.
        (width,) = widths
        assert width is not None, "None was ruled out"
        # Stage 3 gathers frozen parameters too; nobody reduces them.
        also = frozen if exchange is Exchange.GATHER and partition.stage == 3 else 0
        expected = [
            item
            for item in step_traffic(
                trained + also,
                stage=partition.stage,
                world=partition.world,
                micro_batches=often,
            )
            if _EXCHANGE[item.op] is exchange and item.logical_elements > NORM_ELEMENTS
        ]
        logical = sum(item.logical_bytes for item in recorded)
        theory = sum(item.logical_elements for item in expected) * width
        lines.append(
            TrafficBeside(
                exchange=exchange,
                logical_bytes=logical,
                theory_logical_bytes=theory,
                wire_bytes=sum(item.wire_bytes for item in recorded),
                theory_wire_bytes=sum(item.wire_elements for item in expected) * width,
                replaced_by=tuple(
                    sorted({item.wire_op for item in recorded if item.wire_op != item.op})
                ),
                residual=_residual(exchange, logical, theory, partition.stage),
            )
        )
    return tuple(lines)


def _exchange_of(item: OperationTraffic) -> Exchange | None:
    return next((kind for op, kind in _EXCHANGE.items() if op == item.op), None)


def _residual(exchange: Exchange, logical: float, theory: float, stage: int) -> TrafficResidual:
    if logical == theory:
        return TrafficResidual.NONE
    if theory < logical <= theory * (1 + PADDING_SHARE) + SMALL_BYTES:
        return TrafficResidual.PADDING
    if exchange is Exchange.GATHER and stage == 3 and theory / 2 <= logical < theory:
        return TrafficResidual.RESIDENT
    return TrafficResidual.UNEXPLAINED
