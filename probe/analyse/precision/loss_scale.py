"""The loss scale exactly as it was: a step function, kept as the stretches on which it is constant.

Nothing is thinned or smoothed: written out again, the stretches give every step's scale. The run
has settled once `SETTLED_STEPS` steps in a row were applied; what was skipped before is start-up,
the price of an initial scale that was too high, and what is skipped later has other causes.
"""

from dataclasses import dataclass
from math import floor, isfinite, log2

import numpy as np

from probe.analyse.steps.by_step import StepStory

SETTLED_STEPS = 20


@dataclass(frozen=True, kw_only=True)
class Stretch:
    """Recorded steps in a row that used one scale."""

    first_step: int
    last_step: int
    steps: int
    """Recorded steps in it."""
    scale: float


@dataclass(frozen=True, kw_only=True)
class ScaleHistory:
    """The scales of all steps that state one."""

    stretches: tuple[Stretch, ...]
    scale_now: float
    """After the last step's update."""
    lowest: float
    highest: float
    raised: int
    """How often the scale went up from one step to the next."""
    lowered: int
    settled_step: int | None
    """First of the first `SETTLED_STEPS` applied steps in a row; None if it never settled."""
    settled_scale: float | None
    """The scale of that step."""

    @property
    def recommended_initial_power(self) -> int | None:
        """The power of two to start with so that nothing is skipped at the start: the one at which
        the run settled."""
        scale = self.settled_scale
        if scale is None or not isfinite(scale) or scale <= 0:
            return None
        return floor(log2(scale))


def scale_history(story: StepStory) -> ScaleHistory | None:
    """None if no step states a loss scale."""
    stated = ~np.isnan(story.scale)
    if not stated.any():
        return None
    step, scale = story.step[stated], story.scale[stated]
    starts = np.flatnonzero(np.r_[True, scale[1:] != scale[:-1]])
    ends = np.r_[starts[1:], len(scale)] - 1
    settled = _first_settled(story)
    after = story.scale_next[stated]
    return ScaleHistory(
        stretches=tuple(
            Stretch(
                first_step=int(step[start]),
                last_step=int(step[end]),
                steps=int(end - start + 1),
                scale=float(scale[start]),
            )
            for start, end in zip(starts, ends, strict=True)
        ),
        scale_now=float(scale[-1] if np.isnan(after[-1]) else after[-1]),
        lowest=float(scale.min()),
        highest=float(scale.max()),
        raised=int((scale[1:] > scale[:-1]).sum()),
        lowered=int((scale[1:] < scale[:-1]).sum()),
        settled_step=None if settled is None else int(story.step[settled]),
        settled_scale=None
        if settled is None or np.isnan(story.scale[settled])
        else float(story.scale[settled]),
    )


def _first_settled(story: StepStory) -> int | None:
    """Position of the first of `SETTLED_STEPS` applied steps in a row."""
    if len(story) < SETTLED_STEPS:
        return None
    skips_before = np.r_[0, np.cumsum(story.skipped)]
    skips_within = skips_before[SETTLED_STEPS:] - skips_before[:-SETTLED_STEPS]
    quiet = np.flatnonzero(skips_within == 0)
    return int(quiet[0]) if len(quiet) else None


def settled_position(story: StepStory) -> int:
    """How many recorded steps belong to start-up: all of them if the run never settled."""
    found = _first_settled(story)
    return len(story) if found is None else found
