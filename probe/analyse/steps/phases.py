"""Where the time of the steps that count went: the phases of the critical rank.

Two figures a phase, for two questions. The median says what a usual step looks like; medians do not
add up. The share is the phase's time over all counted steps divided by their wall time, so that
shares sum to 100 %, and what is rare and long (a checkpoint) has its due part.
"""

from dataclasses import dataclass

import numpy as np

from probe.analyse.steps.steps import CountedSteps
from probe.schema.vocabulary import Phase


@dataclass(frozen=True, kw_only=True)
class PhaseTime:
    """One phase over all counted steps."""

    phase: Phase
    median_ns: float
    total_ns: int
    share: float
    """Of the wall time of all counted steps; the shares of all phases sum to 1."""


def phase_times(counted: CountedSteps) -> tuple[PhaseTime, ...]:
    """Every phase in the order of a step; empty if no step counts."""
    wall_ns = int(counted.wall_ns.sum())
    if not wall_ns:
        return ()
    return tuple(
        PhaseTime(
            phase=phase,
            median_ns=float(np.median(spent)),
            total_ns=int(spent.sum()),
            share=int(spent.sum()) / wall_ns,
        )
        for phase, spent in ((phase, counted.phase_ns[phase]) for phase in Phase)
    )


def recompute_share(counted: CountedSteps) -> float | None:
    """Share of the counted steps' wall time spent on recomputed forwards; None without steps."""
    wall_ns = int(counted.wall_ns.sum())
    return int(counted.recompute_ns.sum()) / wall_ns if wall_ns else None
