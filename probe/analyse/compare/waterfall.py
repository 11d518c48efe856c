"""From one step time to the other, phase by phase, so that the parts sum to the difference.

Medians do not add up and means hang on spikes. So the waterfall stands on the middle half of the
counted steps of a run by wall time, between its quartiles: the mean over these is near the median,
and the phases of the slowest rank in the same steps add up to it exactly. Several runs of a side
count alike.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from probe.analyse.steps.steps import CountedSteps
from probe.schema.vocabulary import Phase


@dataclass(frozen=True, kw_only=True)
class PhaseShift:
    """One phase of a usual step, in A and in B."""

    phase: Phase
    first_ns: float
    second_ns: float

    @property
    def delta_ns(self) -> float:
        """What B takes longer."""
        return self.second_ns - self.first_ns


@dataclass(frozen=True, kw_only=True)
class Waterfall:
    """A usual step of A, of B, and each phase's part in the difference."""

    first_ns: float
    second_ns: float
    phases: tuple[PhaseShift, ...]
    """All phases in the order of a step; their differences sum to that of the steps."""


def waterfall(first: Sequence[CountedSteps], second: Sequence[CountedSteps]) -> Waterfall | None:
    """None if a side has no counted step."""
    sides = [[_usual(run) for run in side if len(run)] for side in (first, second)]
    if not all(sides):
        return None
    usual = [
        {phase: float(np.mean([run[phase] for run in side])) for phase in Phase} for side in sides
    ]
    return Waterfall(
        first_ns=sum(usual[0].values()),
        second_ns=sum(usual[1].values()),
        phases=tuple(
            PhaseShift(phase=phase, first_ns=usual[0][phase], second_ns=usual[1][phase])
            for phase in Phase
        ),
    )


def _usual(counted: CountedSteps) -> dict[Phase, float]:
    """The mean of each phase over the middle half of the steps."""
    order = np.argsort(counted.wall_ns, kind="stable")
    aside = len(order) // 4
    middle = order[aside : len(order) - aside]
    return {phase: float(counted.phase_ns[phase][middle].mean()) for phase in Phase}
