"""How much a run gets through in a second: samples and tokens of all ranks together.

The rate is that of a usual step: the median, over the steps that count, of what the step consumed
divided by its wall time. `useful_share` says how much of the recorded time went into steps that
changed the parameters; the rest was skipped.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from probe.analyse.steps.steps import CountedSteps, Integers, last_attempts


@dataclass(frozen=True, kw_only=True)
class Throughput:
    """Rates of a usual step; None where the run does not tell what a step consumed."""

    steps_per_s: float | None
    samples_per_s: float | None
    tokens_per_s: float | None


def throughput(counted: CountedSteps) -> Throughput:
    """The rates over the steps that count."""
    ones = np.ones(len(counted), dtype=np.int64)
    return Throughput(
        steps_per_s=_median_rate(ones, counted.wall_ns),
        samples_per_s=_median_rate(counted.samples, counted.wall_ns),
        tokens_per_s=_median_rate(counted.tokens, counted.wall_ns),
    )


def useful_share(steps: pa.Table) -> float | None:
    """Time of the applied steps over the time of all recorded steps, each by its slowest rank."""
    rows, _ = last_attempts(steps)
    by_step = rows.group_by("step").aggregate([("wall_ns", "max"), ("skipped", "max")])
    all_ns = pc.sum(by_step["wall_ns_max"]).as_py()
    if not all_ns:
        return None
    applied = by_step.filter(pc.invert(by_step["skipped_max"]))
    return float(pc.sum(applied["wall_ns_max"]).as_py() or 0) / float(all_ns)


def _median_rate(amounts: Integers | None, wall_ns: Integers) -> float | None:
    if amounts is None or not len(wall_ns) or not wall_ns.all():
        return None
    return float(np.median(amounts / (wall_ns / 1e9)))
