"""What runs do by themselves, known from earlier runs of the same setup that nobody named.

Two runs alone do not tell how much the next start of the same program would differ: steps within a
run share its process, its place in memory and its hour. Where the folder holds other runs of the
setup of A or of B, the spread of their medians tells it, and a comparison of one run a side takes
that for its error. The compared runs are left out of it, so that a difference between them does not
excuse itself.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from probe.analyse.steps.steps import counted_steps
from probe.schema.vocabulary import Phase

LEAST_DEGREES = 3
"""Of fewer the spread itself is unknown: an interval of it would leave no verdict to any pair."""


@dataclass(frozen=True, kw_only=True)
class EqualRun:
    """A start of the same program: its medians over the counted steps, by the measure's name."""

    path: str
    medians: Mapping[str, float]


@dataclass(frozen=True, kw_only=True)
class KnownSpread:
    """How far runs of one setup lie from each other in one measure."""

    deviation: float
    """Standard deviation of the logarithm of a run's median."""
    degrees: float
    runs: int


def equal_run(path: str, steps: pa.Table) -> EqualRun:
    """A run by its medians, from the columns that counting its steps needs."""
    counted = counted_steps(steps)
    waits = counted.phase_ns[Phase.GATHER_WAIT] + counted.phase_ns[Phase.REDUCE_WAIT]
    medians = {}
    for name, values in (("step_time", counted.wall_ns), ("exposed_time", waits)):
        if len(values) and (values > 0).all():
            medians[name] = float(np.median(values))
    if "step_time" in medians:
        # The logarithms of runs of the same work lie as far apart, whichever way round.
        medians["throughput"] = 1 / medians["step_time"]
    return EqualRun(path=path, medians=medians)


def known_spread(sides: Sequence[Sequence[EqualRun]], name: str) -> KnownSpread | None:
    """What the equal runs of all sides together tell of one measure; None if that is too little."""
    logs = [
        [np.log(run.medians[name]) for run in group if name in run.medians]
        for group in _groups(sides)
    ]
    told = sum(map(len, logs))
    deviation, degrees = pooled_spread(logs)
    if degrees < LEAST_DEGREES:
        return None
    return KnownSpread(deviation=deviation, degrees=degrees, runs=told)


def pooled_spread(groups: Sequence[Sequence[float]]) -> tuple[float, float]:
    """Standard deviation around the groups' own means, and its degrees of freedom."""
    squares = sum(float(((np.array(item) - np.mean(item)) ** 2).sum()) for item in groups if item)
    degrees = float(sum(len(item) - 1 for item in groups if item))
    return (squares / degrees) ** 0.5 if degrees else 0.0, degrees


def _groups(sides: Sequence[Sequence[EqualRun]]) -> list[list[EqualRun]]:
    """Runs that stand by both sides are of one setup, and count once."""
    groups: list[dict[str, EqualRun]] = []
    for side in sides:
        found = {run.path: run for run in side}
        shared = next((group for group in groups if group.keys() & found.keys()), None)
        if shared is None:
            groups.append(found)
        else:
            shared.update(found)
    return [list(group.values()) for group in groups]
