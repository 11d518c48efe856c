"""How often gradient clipping bound, over the steps that were applied."""

from dataclasses import dataclass

import numpy as np

from probe.analyse.steps.by_step import StepStory


@dataclass(frozen=True, kw_only=True)
class Clipping:
    """Clipping over the applied steps that tell of it."""

    steps: int
    clipped: int
    median_coefficient: float | None
    """Of the clipped steps: what their gradients were multiplied by."""

    @property
    def share(self) -> float:
        """Clipped over applied steps."""
        return self.clipped / self.steps


def clipping(story: StepStory) -> Clipping | None:
    """None if no applied step tells its coefficient."""
    told = story.clip_coefficient[~story.skipped & ~np.isnan(story.clip_coefficient)]
    if not len(told):
        return None
    bound = told[told < 1]
    return Clipping(
        steps=len(told),
        clipped=len(bound),
        median_coefficient=float(np.median(bound)) if len(bound) else None,
    )
