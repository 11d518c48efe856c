"""Collectives of a step: what each stage asks for and what that costs on the wire, per rank.

With P parameters, k micro-batches a step and R resident elements (small parameters that stage 3
leaves gathered), S being the payload as nccl-tests count it:

    stage 0      all-reduce P, once a step
    stage 1      reduce-scatter P and all-gather P, once a step: gradients add up locally
    stage 2      reduce-scatter P for each micro-batch, all-gather P once: only a slice is kept
    stage 3      all-gather P-R in forward and again in backward and reduce-scatter P for each
                 micro-batch; all-gather R once, after the update

and one small all-reduce for norm and finite check. An all-reduce may be asked for in its two
halves, a reduce-scatter and an all-gather of P each, which send the same. On the wire a rank sends
2S(n-1)/n for an all-reduce and S(n-1)/n for a reduce-scatter, all-gather, all-to-all and, at the
mean over ranks, a broadcast. gloo's reduce-scatter is an all-reduce inside and pays for one.
"""

from dataclasses import dataclass

from probe.schema.vocabulary import CollectiveOp, Phase

NORM_ELEMENTS = 2
"""Sum of squares and finite flag, in one collective."""

_WIRE_FACTOR = {
    CollectiveOp.ALL_REDUCE: 2.0,
    CollectiveOp.REDUCE_SCATTER: 1.0,
    CollectiveOp.ALL_GATHER: 1.0,
    CollectiveOp.ALL_TO_ALL: 1.0,
    CollectiveOp.BROADCAST: 1.0,
    CollectiveOp.REDUCE: 1.0,
    CollectiveOp.GATHER: 1.0,
    CollectiveOp.SCATTER: 1.0,
}


@dataclass(frozen=True, kw_only=True)
class Traffic:
    """One operation in one phase of a step, on one rank."""

    phase: Phase
    op: CollectiveOp
    logical_elements: int
    """Payload S of all its calls together."""
    wire_elements: float
    """Elements that a rank sends, where the backend moves the true volume."""


def step_traffic(
    param_elements: int,
    *,
    stage: int,
    world: int,
    micro_batches: int = 1,
    resident_elements: int = 0,
    reduces_in_halves: bool = False,
) -> tuple[Traffic, ...]:
    """All collectives of an optimizer step, the small one included; a world of one has none."""
    if world == 1:
        return ()
    whole, often = param_elements, micro_batches
    gathered = whole - resident_elements
    asked = {
        0: [(Phase.BACKWARD, CollectiveOp.ALL_REDUCE, whole)],
        1: [
            (Phase.BACKWARD, CollectiveOp.REDUCE_SCATTER, whole),
            (Phase.OPTIMIZER, CollectiveOp.ALL_GATHER, whole),
        ],
        2: [
            (Phase.BACKWARD, CollectiveOp.REDUCE_SCATTER, whole * often),
            (Phase.OPTIMIZER, CollectiveOp.ALL_GATHER, whole),
        ],
        3: [
            (Phase.FORWARD, CollectiveOp.ALL_GATHER, gathered * often),
            (Phase.BACKWARD, CollectiveOp.ALL_GATHER, gathered * often),
            (Phase.BACKWARD, CollectiveOp.REDUCE_SCATTER, whole * often),
            (Phase.OPTIMIZER, CollectiveOp.ALL_GATHER, resident_elements),
        ],
    }[stage]
    if stage == 0 and reduces_in_halves:
        asked = [
            (Phase.BACKWARD, CollectiveOp.REDUCE_SCATTER, whole),
            (Phase.BACKWARD, CollectiveOp.ALL_GATHER, whole),
        ]
    asked.append((Phase.OPTIMIZER, CollectiveOp.ALL_REDUCE, NORM_ELEMENTS))
    return tuple(
        Traffic(
            phase=phase,
            op=op,
            logical_elements=logical,
            wire_elements=logical * wire_factor(op, world),
        )
        for phase, op, logical in asked
        if logical
    )


def wire_factor(wire_op: CollectiveOp, group_size: int) -> float:
    """Bytes that a rank sends over the payload S, for the operation that the backend really runs.

    Send, receive and barrier have no such factor and count as S, as what was handed over.
    """
    if wire_op not in _WIRE_FACTOR:
        return 1.0
    return _WIRE_FACTOR[wire_op] * (group_size - 1) / group_size


def library_wire_op(op: CollectiveOp, backend: str) -> CollectiveOp:
    """The operation that a backend's library runs when it is asked for `op`."""
    if backend == "gloo" and op is CollectiveOp.REDUCE_SCATTER:
        return CollectiveOp.ALL_REDUCE
    return op
