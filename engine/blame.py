"""The rows that say where an overflow began: the first of them on each rank is marked.

A value that is no number comes into being once and spoils whatever is computed from it. So an output is
to blame before the loss, the loss before the gradients, and of the gradients the one that came first.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import msgspec

from engine.collectives.summation import kind_of, largest_finite
from engine.facts import OverflowFacts
from engine.segments import Segment
from probe.schema.rows import OverflowRow
from probe.schema.vocabulary import NonFinite, Phase, TensorRole


@dataclass(frozen=True, kw_only=True)
class BadOutput:
    """The first module of a forward whose output was no number."""

    module: str
    micro_batch: int
    kind: NonFinite
    nonfinite_elements: int
    tensor_elements: int
    largest_finite: float | None


@dataclass(frozen=True, kw_only=True)
class BadWeight:
    """A weight that was no number before the step."""

    name: str
    kind: NonFinite
    nonfinite_elements: int
    tensor_elements: int
    largest_finite: float | None


def overflow_rows(
    facts: OverflowFacts,
    *,
    rank: int,
    outputs: Sequence[BadOutput],
    weights: Sequence[BadWeight],
) -> list[OverflowRow]:
    """What this rank has to say; a bad sum that no rank brought is rank 0's to tell."""
    rows = [
        OverflowRow(
            step=facts.step,
            role=TensorRole.WEIGHT,
            kind=bad.kind,
            parameter=bad.name,
            module=module_of(bad.name),
            nonfinite_elements=bad.nonfinite_elements,
            tensor_elements=bad.tensor_elements,
            largest_finite=bad.largest_finite,
            loss_scale=facts.loss_scale,
        )
        for bad in weights
    ]
    in_time = [
        OverflowRow(
            step=facts.step,
            role=TensorRole.OUTPUT,
            kind=bad.kind,
            micro_batch=bad.micro_batch,
            module=bad.module,
            phase=Phase.FORWARD,
            nonfinite_elements=bad.nonfinite_elements,
            tensor_elements=bad.tensor_elements,
            largest_finite=bad.largest_finite,
            loss_scale=facts.loss_scale,
        )
        for bad in outputs
    ]
    in_time += [
        OverflowRow(
            step=facts.step,
            role=TensorRole.LOSS,
            kind=kind,
            micro_batch=micro_batch,
            phase=Phase.FORWARD,
            nonfinite_elements=1,
            tensor_elements=1,
            loss_scale=facts.loss_scale,
        )
        for micro_batch, kind in facts.bad_losses
    ]
    in_time += [
        OverflowRow(
            step=facts.step,
            role=TensorRole.GRADIENT,
            kind=bad.kind,
            micro_batch=bad.micro_batch,
            parameter=bad.name,
            module=module_of(bad.name),
            phase=Phase.BACKWARD,
            nonfinite_elements=bad.nonfinite_elements,
            tensor_elements=bad.tensor_elements,
            largest_finite=bad.largest_finite,
            loss_scale=facts.loss_scale,
        )
        for bad in facts.offenders
        if bad.rank == rank or (bad.rank is None and rank == 0)
    ]
    # The sort is stable: within a micro-batch outputs, loss and gradients stay in this order.
    rows += sorted(in_time, key=lambda row: row.micro_batch or 0)
    return [msgspec.structs.replace(row, first=place == 0) for place, row in enumerate(rows)]


def bad_weights(segments: Iterable[Segment]) -> list[BadWeight]:
    """Weights of this rank's segments that are no numbers themselves."""
    found = []
    for segment in segments:
        master = segment.master.detach()
        if bool(master.sum().isfinite()):
            continue
        for span in segment.spans:
            values = master[span.start : span.stop]
            bad = int((~values.isfinite()).sum())
            if bad:
                found.append(
                    BadWeight(
                        name=span.member.name,
                        kind=kind_of(values),
                        nonfinite_elements=bad,
                        tensor_elements=span.member.elements,
                        largest_finite=largest_finite(values),
                    )
                )
    return found


def module_of(parameter: str) -> str | None:
    """The module that a parameter belongs to; None for the model itself."""
    return parameter.rpartition(".")[0] or None
