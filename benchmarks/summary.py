"""What the step times say: medians, spread, and ratios with an interval. Pure arithmetic.

Steps of one round are neighbours in time and not independent, so the interval of a ratio comes
from drawing whole rounds, the same rounds for both contestants.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median, quantiles

from benchmarks.interleave import Record

DRAWS = 2000
CONFIDENCE = 0.95


@dataclass(frozen=True, kw_only=True)
class Summary:
    """One contestant's figures in one setting."""

    contestant: str
    steps: int
    median_ns: float
    mad_ns: float
    """Median absolute deviation."""
    p10_ns: float
    p90_ns: float
    cpu_ns: float
    """Median processor time of a step."""
    last_loss: float
    base_bytes: int
    peak_bytes: int
    parts_ns: dict[str, float]
    """Median of each part; only the bound has parts."""


@dataclass(frozen=True, kw_only=True)
class Ratio:
    """Median over median, and where it lies with 95 % confidence."""

    above: str
    below: str
    value: float
    low: float
    high: float
    cpu: float
    """The same ratio of processor times."""


def summarise(record: Record) -> Summary:
    """Reduce a record to its figures."""
    times = [time for one_round in record.rounds_ns for time in one_round]
    middle = median(times)
    deciles = quantiles(times, n=10, method="inclusive")
    return Summary(
        contestant=record.contestant,
        steps=len(times),
        median_ns=middle,
        mad_ns=median(abs(time - middle) for time in times),
        p10_ns=deciles[0],
        p90_ns=deciles[-1],
        cpu_ns=median(time for one_round in record.cpu_rounds_ns for time in one_round),
        last_loss=record.losses[-1],
        base_bytes=record.base_bytes,
        peak_bytes=record.peak_bytes,
        parts_ns={part: median(values) for part, values in record.parts_ns.items()},
    )


def compare(above: Record, below: Record, seed: int = 0) -> Ratio:
    """Return the ratio of the medians of two contestants of one race."""
    pairs = list(zip(above.rounds_ns, below.rounds_ns, strict=True))
    source = random.Random(seed)
    drawn = sorted(_ratio_of_medians(source.choices(pairs, k=len(pairs))) for _ in range(DRAWS))
    tail = round(DRAWS * (1 - CONFIDENCE) / 2)
    return Ratio(
        above=above.contestant,
        below=below.contestant,
        value=_ratio_of_medians(pairs),
        low=drawn[tail],
        high=drawn[-1 - tail],
        cpu=summarise(above).cpu_ns / summarise(below).cpu_ns,
    )


def fastest(records: Mapping[str, Record], among: Sequence[str]) -> Record:
    """Return the record with the smallest median among the named contestants."""
    return min((records[name] for name in among), key=lambda record: summarise(record).median_ns)


def _ratio_of_medians(pairs: Sequence[tuple[Sequence[int], Sequence[int]]]) -> float:
    above = median(time for pair in pairs for time in pair[0])
    below = median(time for pair in pairs for time in pair[1])
    return above / below
