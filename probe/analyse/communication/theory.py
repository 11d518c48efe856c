"""Recorded traffic beside what the stage must send, in bytes of a step of one rank.

Reductions (all-reduce and reduce-scatter) and gathers are held against the closed form of the
stage, in the type that was on the wire. Stage 0 is judged by what it asked for: an all-reduce, or
its halves. How much stage 3 keeps resident is read from what it gathers outside of forward and
backward, so the form counts it once. What differs has a name where there is one: padding of up to
2 %, weights that backward does without, or frozen parameters so small that nobody gathers them. An
operation that the backend replaced by one that sends more, such as gloo's reduce-scatter, which is
an all-reduce, is told.
"""

from dataclasses import dataclass
from enum import StrEnum

from probe.analyse.communication.use import Communication, OperationTraffic
from probe.analyse.memory.theory import partition_of
from probe.analyse.theory.traffic import NORM_ELEMENTS, step_traffic
from probe.schema.documents import Manifest
from probe.schema.vocabulary import CollectiveOp, Phase

PADDING_SHARE = 0.02
SMALL_BYTES = 4096
"""A collective of the optimizer that is no larger is for norm and finite check, and left out."""

_BYTES = {"fp16": 2, "bf16": 2, "float16": 2, "bfloat16": 2, "fp32": 4, "float32": 4}


class Exchange(StrEnum):
    """The two things that ranks exchange."""

    REDUCTION = "reduction"
    GATHER = "gather"


class TrafficResidual(StrEnum):
    """Why recorded traffic differs from the closed form."""

    NONE = "none"
    PADDING = "padding"
    FORWARD_ONLY = "forward only"
    """Weights that backward does without, such as an embedding's: stage 3 gathers them once."""
    RESIDENT = "resident"
    """Small frozen parameters of stage 3: they stay gathered and never change."""
    UNEXPLAINED = "unexplained"


_EXCHANGE: dict[str, Exchange] = {
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
    resident_bytes: float = 0.0
    """Of the expected bytes, what stage 3 keeps whole and gathers once, after the update."""

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
    payload = [item for item in comm.operations if _carries_payload(item)]
    in_halves = any(item.op == CollectiveOp.REDUCE_SCATTER for item in payload)
    lines = []
    for exchange in Exchange:
        recorded = [item for item in payload if _EXCHANGE.get(item.op) is exchange]
        widths = {_BYTES.get(item.dtype) for item in recorded}
        if len(widths) != 1 or None in widths:
            continue  # Several types on the wire have no one closed form.
        (width,) = widths
        assert width is not None, "None was ruled out"
        gathers_in_stage_3 = exchange is Exchange.GATHER and partition.stage == 3
        resident = gathered_once = 0.0
        if gathers_in_stage_3:
            forward, backward = _in(Phase.FORWARD, recorded), _in(Phase.BACKWARD, recorded)
            resident = sum(item.logical_bytes for item in recorded) - forward - backward
            gathered_once = max(0.0, forward - backward)
        # Stage 3 gathers frozen parameters too; nobody reduces them.
        also = frozen if gathers_in_stage_3 else 0
        expected = [
            item
            for item in step_traffic(
                trained + also,
                stage=partition.stage,
                world=partition.world,
                micro_batches=often,
                resident_elements=round(resident / width),
                reduces_in_halves=in_halves,
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
                residual=_residual(
                    logical,
                    theory,
                    gathered_once=gathered_once,
                    frozen_bytes=2 * often * also * width,
                ),
                resident_bytes=resident,
            )
        )
    return tuple(lines)


def _carries_payload(item: OperationTraffic) -> bool:
    """Weights or gradients; not words that ranks share, nor norm and finite check."""
    small = item.phase == Phase.OPTIMIZER and (item.bytes_per_call or 0) <= SMALL_BYTES
    return not small and not item.dtype.startswith(("int", "uint"))


def _in(phase: Phase, operations: list[OperationTraffic]) -> float:
    return sum(item.logical_bytes for item in operations if item.phase == phase)


def _residual(
    logical: float, theory: float, *, gathered_once: float, frozen_bytes: float
) -> TrafficResidual:
    most = theory * (1 + PADDING_SHARE) + SMALL_BYTES
    if logical == theory:
        return TrafficResidual.NONE
    if theory < logical <= most:
        return TrafficResidual.PADDING
    if logical < theory <= logical + gathered_once <= most:
        return TrafficResidual.FORWARD_ONLY
    if theory - frozen_bytes <= logical < theory:
        return TrafficResidual.RESIDENT
    return TrafficResidual.UNEXPLAINED
