"""What a sweep shows: each cell in a few figures, and its step time against the first cell's.

Several runs of a cell are taken together as a comparison takes them: the geometric mean of their
medians, and their own spread where there are several, else that of the steps within the one.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from probe.analyse.compare.change import CONFIDENCE, MATERIAL, Change, compare_medians
from probe.analyse.compare.measured_run import MeasuredRun
from probe.analyse.statistics.median import MedianEstimate
from probe.analyse.statistics.student import quantile


@dataclass(frozen=True, kw_only=True)
class CellFigures:
    """One cell; None where its runs do not tell."""

    runs: int
    step_time_ns: float | None
    reach: float | None
    """As a share of the step time: half the 95 % interval within the run, or half of what lies
    between the fastest and the slowest of several."""
    peak_memory_bytes: float | None
    skipped_steps: float
    final_loss: float | None
    metrics: Mapping[str, float]
    """The last value of each metric that the user logged, in the first of the runs."""
    change: Change | None
    """Step time against the first cell that tells one; None for that cell itself."""


def sweep_figures(cells: Sequence[Sequence[MeasuredRun]]) -> tuple[CellFigures, ...]:
    """The figures of each cell, in order; a cell without runs is held to have told nothing."""
    times = [[run.step_time for run in runs if run.step_time is not None] for runs in cells]
    reference = next((place for place, told in enumerate(times) if told), None)
    return tuple(
        CellFigures(
            runs=len(runs),
            step_time_ns=_middle(told),
            reach=_reach(told),
            peak_memory_bytes=_median(
                [run.memory.peak.peak_bytes for run in runs if run.memory is not None]
            ),
            skipped_steps=_median([run.skipped_steps for run in runs]) or 0,
            final_loss=_median([run.final_loss for run in runs if run.final_loss is not None]),
            metrics=runs[0].metrics if runs else {},
            change=compare_medians(times[reference], told, material=MATERIAL)
            if reference is not None and place != reference and told
            else None,
        )
        for place, (runs, told) in enumerate(zip(cells, times, strict=True))
    )


def _middle(told: Sequence[MedianEstimate]) -> float | None:
    return math.exp(float(np.mean([item.log_median for item in told]))) if told else None


def _reach(told: Sequence[MedianEstimate]) -> float | None:
    if len(told) == 1:
        return quantile((1 + CONFIDENCE) / 2, told[0].degrees) * told[0].standard_error
    medians = [item.median for item in told]
    middle = _middle(told)
    return (max(medians) - min(medians)) / 2 / middle if middle else None


def _median(values: Sequence[float]) -> float | None:
    return float(np.median(values)) if values else None
