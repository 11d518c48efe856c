"""Where overflows began: the tensors that were first to go wrong, and in how many of the steps.

A tensor's share is the number of steps in which it was the first offender on some rank, over the
steps for which any first offender was recorded. Shares of different tensors may add up to more than
one: several ranks can each have a first offender in the same step.
"""

from collections import defaultdict
from dataclasses import dataclass

import pyarrow as pa

ORIGIN_COLUMNS = (
    "rank",
    "step",
    "role",
    "kind",
    "parameter",
    "module",
    "micro_batch",
    "first",
)
"""Columns of the overflow table that `overflow_origins` reads."""


@dataclass(frozen=True, kw_only=True)
class Origin:
    """One tensor that overflows began in."""

    name: str
    """Parameter or module."""
    role: str
    """Gradient, weight, output or loss."""
    kinds: tuple[str, ...]
    """inf, nan or both, as they came."""
    ranks: tuple[int, ...]
    micro_batches: tuple[int, ...]
    """Of a step, counted from zero, where they are known."""
    steps: tuple[int, ...]
    share: float
    """Of the steps that have a recorded first offender."""


def overflow_origins(overflow: pa.Table) -> tuple[Origin, ...]:
    """First offenders, the commonest first."""
    rows = overflow.filter(overflow["first"]).select(list(ORIGIN_COLUMNS)).to_pylist()
    found = defaultdict(list)
    for row in rows:
        found[row["parameter"] or row["module"] or row["role"], row["role"]].append(row)
    all_steps = {row["step"] for row in rows}
    origins = [
        Origin(
            name=name,
            role=role,
            kinds=tuple(sorted({row["kind"] for row in its})),
            ranks=tuple(sorted({row["rank"] for row in its})),
            micro_batches=tuple(
                sorted({row["micro_batch"] for row in its if row["micro_batch"] is not None})
            ),
            steps=tuple(sorted(steps := {row["step"] for row in its})),
            share=len(steps) / len(all_steps),
        )
        for (name, role), its in found.items()
    ]
    return tuple(sorted(origins, key=lambda origin: (-origin.share, origin.name)))
