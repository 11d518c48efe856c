"""How even the steps are: noise, dependence between neighbours, and spikes with their period.

Noise is MAD / median of the wall times: half of the steps lie that near to the median. A spike is a
step longer than the median by more than 25 % of it and more than five standard deviations (each
1.4826 × MAD). Spikes are periodic if there are at least three, two thirds of the distances between
neighbours are multiples of the commonest distance, the period, and chance would bring that about
once in twenty times at the most: a distance is a multiple of p by chance once in p times, and each
distance that occurs had its chance to be the commonest. What made them long is the phase that grew
most against its own median, summed over the spikes.
"""

from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from math import comb

import numpy as np

from probe.analyse.steps.steps import CountedSteps, Integers
from probe.analyse.steps.warm_up import DEVIATIONS_PER_MAD
from probe.schema.vocabulary import Phase

LEAST_SPIKE = 0.25
SPIKE_DEVIATIONS = 5.0
LEAST_PERIODIC_SPIKES = 3
PERIODIC_SHARE = 2 / 3
MOST_CHANCE = 0.05


@dataclass(frozen=True, kw_only=True)
class Spikes:
    """Steps that took far longer than usual."""

    steps: tuple[int, ...]
    excess_ns: int
    """Time beyond the median, over all spikes."""
    excess_share: float
    """The same as a share of the wall time of all counted steps."""
    phase: Phase
    """The phase that grew most."""
    period_steps: int | None
    """Distance between spikes, if they are periodic."""


@dataclass(frozen=True, kw_only=True)
class Regularity:
    """How much wall times vary over the steps that count."""

    median_ns: float
    noise: float
    """MAD / median."""
    autocorrelation: float | None
    """Of neighbouring steps (lag 1); None for fewer than three steps or without variation."""
    p95_ns: float
    spikes: Spikes | None


def regularity(counted: CountedSteps) -> Regularity | None:
    """None if no step counts."""
    wall_ns = counted.wall_ns
    if not len(wall_ns):
        return None
    median_ns = float(np.median(wall_ns))
    mad_ns = float(np.median(np.abs(wall_ns - median_ns)))
    return Regularity(
        median_ns=median_ns,
        noise=mad_ns / median_ns if median_ns else 0.0,
        autocorrelation=_autocorrelation(wall_ns),
        p95_ns=float(np.quantile(wall_ns, 0.95)),
        spikes=_spikes(counted, median_ns, mad_ns),
    )


def _autocorrelation(wall_ns: Integers) -> float | None:
    centred = wall_ns - wall_ns.mean()
    spread = float(centred @ centred)
    if len(wall_ns) < 3 or not spread:
        return None
    return float(centred[1:] @ centred[:-1]) / spread


def _spikes(counted: CountedSteps, median_ns: float, mad_ns: float) -> Spikes | None:
    margin = max(LEAST_SPIKE * median_ns, SPIKE_DEVIATIONS * DEVIATIONS_PER_MAD * mad_ns)
    long = counted.wall_ns > median_ns + margin
    if not long.any():
        return None
    growth = {
        phase: float((spent[long] - np.median(spent)).sum())
        for phase, spent in counted.phase_ns.items()
    }
    steps = tuple(int(number) for number in counted.step[long])
    excess_ns = float((counted.wall_ns[long] - median_ns).sum())
    return Spikes(
        steps=steps,
        excess_ns=round(excess_ns),
        excess_share=excess_ns / float(counted.wall_ns.sum()),
        phase=max(growth, key=lambda phase: growth[phase]),
        period_steps=_period(steps),
    )


def _period(steps: tuple[int, ...]) -> int | None:
    distances = [after - before for before, after in pairwise(steps)]
    if len(steps) < LEAST_PERIODIC_SPIKES:
        return None
    ((period, times),) = Counter(distances).most_common(1)
    multiples = sum(distance % period == 0 for distance in distances)
    # Every distance is a multiple of one step: neighbours in a row are a slow patch, no period.
    regular = period > 1 and times > 1 and multiples >= PERIODIC_SHARE * len(distances)
    if not regular:
        return None
    by_chance = _at_least(multiples - 1, of=len(distances) - 1, each=1 / period)
    return period if by_chance * len(set(distances)) <= MOST_CHANCE else None


def _at_least(wanted: int, *, of: int, each: float) -> float:
    """How probable so many hits are in so many trials, each with this probability."""
    return sum(
        comb(of, hits) * each**hits * (1 - each) ** (of - hits) for hits in range(wanted, of + 1)
    )
