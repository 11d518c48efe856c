"""The rows that say where an overflow began: the first of them on each rank is marked.

A value that is no number comes into being once and spoils whatever is computed from it. So a weight
is to blame before an output, an output before the loss, the loss before the gradients, and of the
gradients the one that came first.
"""

from collections.abc import Iterable, Sequence

from torch import Tensor

from engine.collectives.summation import kind_of, largest_finite
from engine.facts import BadTensor, OverflowFacts
from engine.segments import Segment, known_weights
from probe.schema.rows import OverflowRow
from probe.schema.vocabulary import Phase, TensorRole

_PHASES = {
    TensorRole.OUTPUT: Phase.FORWARD,
    TensorRole.LOSS: Phase.FORWARD,
    TensorRole.GRADIENT: Phase.BACKWARD,
}


def overflow_rows(
    facts: OverflowFacts, *, rank: int, outputs: Sequence[BadTensor], weights: Sequence[BadTensor]
) -> list[OverflowRow]:
    """What this rank has to say; a bad sum that no rank brought is rank 0's to tell."""
    gradients = [
        bad for bad in facts.offenders if bad.rank == rank or (bad.rank is None and rank == 0)
    ]
    # The sort is stable: within a micro-batch outputs, loss and gradients stay in this order.
    later = sorted((*outputs, *facts.bad_losses, *gradients), key=lambda bad: bad.micro_batch or 0)
    return [
        OverflowRow(
            step=facts.step,
            role=bad.role,
            kind=bad.kind,
            micro_batch=bad.micro_batch,
            parameter=bad.name if bad.role in _OF_PARAMETERS else None,
            module=_module_of(bad),
            phase=_PHASES.get(bad.role),
            nonfinite_elements=bad.nonfinite_elements,
            tensor_elements=bad.tensor_elements,
            largest_finite=bad.largest_finite,
            loss_scale=facts.loss_scale,
            first=place == 0,
        )
        for place, bad in enumerate((*weights, *later))
    ]


def bad_weights(segments: Iterable[Segment], rank: int) -> list[BadTensor]:
    """Weights of this rank's segments that are no numbers themselves."""
    found = []
    for segment in segments:
        master = known_weights(segment)
        if bool(master.isfinite().all()):
            continue
        for span in segment.spans:
            bad = describe_bad(
                master[span.start : span.stop],
                name=span.member.name,
                role=TensorRole.WEIGHT,
                rank=rank,
            )
            if bad is not None:
                found.append(bad)
    return found


def bad_losses(losses: Iterable[Tensor], rank: int) -> tuple[BadTensor, ...]:
    """Losses of micro-batches that were no numbers already."""
    found = [
        describe_bad(loss, name="", role=TensorRole.LOSS, rank=rank, micro_batch=number)
        for number, loss in enumerate(losses)
    ]
    return tuple(bad for bad in found if bad is not None)


def describe_bad(
    tensor: Tensor,
    *,
    name: str,
    role: TensorRole,
    rank: int | None,
    micro_batch: int | None = None,
) -> BadTensor | None:
    """What is wrong with a tensor; None if nothing is."""
    bad = int((~tensor.isfinite()).sum())
    if not bad:
        return None
    return BadTensor(
        rank=rank,
        name=name,
        kind=kind_of(tensor),
        role=role,
        micro_batch=micro_batch,
        nonfinite_elements=bad,
        tensor_elements=tensor.numel(),
        largest_finite=largest_finite(tensor),
    )


_OF_PARAMETERS = (TensorRole.GRADIENT, TensorRole.WEIGHT)


def _module_of(bad: BadTensor) -> str | None:
    """The module whose output or parameter it is; None for the model's own, and for a loss."""
    return (bad.name.rpartition(".")[0] if bad.role in _OF_PARAMETERS else bad.name) or None
