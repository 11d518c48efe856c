"""Naming the gradients that made a step be skipped, so that every rank names the same.

The owner of a slice sees which rank's contribution to it was bad, and in which elements; a
parameter may lie in several slices, and only the rank itself may know in which micro-batch its
gradient went bad. All of that is put together here, first come first.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import torch

from engine.collectives import Collectives
from engine.collectives.summation import BadValues, kind_of, largest_finite
from engine.facts import BadTensor
from engine.first_bad import FirstBad
from engine.partition import Layout
from engine.segments import Segment
from probe.schema.vocabulary import NonFinite


def name_bad_tensors(layout: Layout, rank: int, found: Sequence[BadValues]) -> list[BadTensor]:
    """Which parameters the bad values in `rank`'s slice belong to."""
    named = []
    for each in found:
        for span in layout.spans(rank):
            bad = each.bad[span.start : span.stop]
            if bool(bad.any()):
                values = each.values[span.start : span.stop]
                named.append(
                    BadTensor(
                        rank=each.rank,
                        name=span.member.name,
                        kind=kind_of(values[bad]),
                        nonfinite_elements=int(bad.sum()),
                        tensor_elements=span.member.elements,
                        largest_finite=None if each.is_mean else largest_finite(values),
                    )
                )
    return named


def name_bad_segments(segments: Iterable[Segment]) -> list[BadTensor]:
    """Averages that are bad although no contribution was, as far as anybody can tell."""
    found = []
    for segment in segments:
        for span in segment.spans if segment.gradient is not None else ():
            assert segment.gradient is not None, "just asked"
            values = segment.gradient[span.start : span.stop]
            bad = ~values.isfinite()
            if bool(bad.any()):
                found.append(
                    BadTensor(
                        rank=None,
                        name=span.member.name,
                        kind=kind_of(values),
                        nonfinite_elements=int(bad.sum()),
                        tensor_elements=span.member.elements,
                        largest_finite=largest_finite(values),
                    )
                )
    return found


def agree_on_offenders(
    own: Sequence[BadTensor],
    sums: Callable[[], list[BadTensor]],
    *,
    first_bad: FirstBad,
    collectives: Collectives,
) -> tuple[BadTensor, ...]:
    """All ranks' findings as one list, the same on every rank: the first to come first.

    `sums` looks into this rank's averages: where the contributions were finite, several of them
    overflowed only when added up.
    """
    told = (list(own), first_bad.micro_batches(), first_bad.order)
    everyone = collectives.share_objects(told, block="bad gradients")
    place = {name: at for at, name in enumerate(everyone[0][2])}
    merged: dict[tuple[int | None, str], BadTensor] = {}
    all_findings = [findings for findings, _, _ in everyone]
    if not any(all_findings):
        all_findings = collectives.share_objects(sums(), block="bad sums of gradients")
    for findings in all_findings:
        for bad in findings:
            before = merged.get((bad.rank, bad.name))
            merged[bad.rank, bad.name] = bad if before is None else _both(before, bad)
    for rank, (_, micro_batches, _) in enumerate(everyone):
        for name, micro_batch in micro_batches.items():
            # Of what only the sum over ranks shows, a rank may know by itself that it was its own.
            known = merged.get((rank, name), merged.get((None, name)))
            if known is not None:
                merged[rank, name] = replace(known, rank=rank, micro_batch=micro_batch)
    for blamed, name in list(merged):
        # What a rank is to blame for is not the sum's fault.
        if blamed is not None:
            merged.pop((None, name), None)
    return tuple(
        sorted(
            merged.values(),
            key=lambda bad: (
                bad.micro_batch or 0,
                place.get(bad.name, len(place)),
                -1 if bad.rank is None else bad.rank,
            ),
        )
    )


def norm_of(offenders: Sequence[BadTensor]) -> float:
    """What the norm of gradients comes to that hold these: infinite, or no number."""
    only_infinite = all(bad.kind is NonFinite.INF for bad in offenders)
    return torch.inf if offenders and only_infinite else torch.nan


def _both(one: BadTensor, other: BadTensor) -> BadTensor:
    """Two slices of one gradient."""
    largest = [each.largest_finite for each in (one, other) if each.largest_finite is not None]
    dates = [each.micro_batch for each in (one, other) if each.micro_batch is not None]
    return replace(
        one,
        kind=one.kind if one.kind is other.kind else NonFinite.BOTH,
        micro_batch=min(dates, default=None),
        nonfinite_elements=(one.nonfinite_elements or 0) + (other.nonfinite_elements or 0),
        largest_finite=max(largest, default=None),
    )
