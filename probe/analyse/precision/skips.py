"""What skipped steps were and what they cost: streaks, start-up against later, recovery, time.

A streak is overflows in steps recorded one after the other. It is start-up if it begins before the
run has settled (see `loss_scale`). It has recovered in the first later step that uses at least the
scale of the streak's first step, or, where the scale did not move, in the first applied step. The
cost of a skip is the wall time of its slowest rank and the samples of all ranks that were computed
in vain.
"""

from dataclasses import dataclass

import numpy as np

from probe.analyse.precision.loss_scale import settled_position
from probe.analyse.steps.by_step import StepStory


@dataclass(frozen=True, kw_only=True)
class Streak:
    """Overflows in a row."""

    first_step: int
    last_step: int
    skips: int
    startup: bool
    scale_before: float | None
    """Scale used in its first step."""
    scale_last: float | None
    """Scale used in its last step."""
    recovery_steps: int | None
    """Recorded steps from its first one to recovery; None if it did not recover."""
    recovery_ns: int | None
    """Wall time of these steps."""


@dataclass(frozen=True, kw_only=True)
class Skips:
    """All skipped steps of a run."""

    recorded: int
    """Recorded steps, skipped or not."""
    overflows: int
    without_gradient: int
    """Steps skipped because there was no gradient."""
    streaks: tuple[Streak, ...]
    startup_overflows: int
    later_overflows: int
    later_recorded: int
    """Recorded steps after start-up."""
    lost_ns: int
    """Wall time of all skipped steps."""
    lost_time_share: float
    """The same over the wall time of all recorded steps."""
    startup_lost_ns: int
    """Wall time of the overflows of start-up."""
    startup_lost_share: float
    """The same over the wall time of all recorded steps."""
    later_lost_share: float
    """Wall time of the overflows after start-up, over that of all recorded steps."""
    lost_samples: int | None

    @property
    def overflow_share(self) -> float:
        """Overflows over recorded steps."""
        return self.overflows / self.recorded if self.recorded else 0.0

    @property
    def later_overflow_share(self) -> float:
        """Overflows after start-up over the steps after start-up."""
        return self.later_overflows / self.later_recorded if self.later_recorded else 0.0

    @property
    def longest_streak(self) -> Streak | None:
        """The first of the longest streaks."""
        return max(self.streaks, key=lambda streak: streak.skips, default=None)


def summarise_skips(story: StepStory) -> Skips:
    """The skips of a run."""
    startup = settled_position(story)
    total_ns = int(story.wall_ns.sum())
    lost_ns = int(story.wall_ns[story.skipped].sum())
    early = story.overflowed[:startup]
    startup_lost_ns = int(story.wall_ns[:startup][early].sum())
    later_lost_ns = int(story.wall_ns[startup:][story.overflowed[startup:]].sum())
    samples = story.samples
    return Skips(
        recorded=len(story),
        overflows=int(story.overflowed.sum()),
        without_gradient=int((story.skipped & ~story.overflowed).sum()),
        streaks=_streaks(story, startup),
        startup_overflows=int(early.sum()),
        later_overflows=int(story.overflowed[startup:].sum()),
        later_recorded=len(story) - startup,
        lost_ns=lost_ns,
        lost_time_share=lost_ns / total_ns if total_ns else 0.0,
        startup_lost_ns=startup_lost_ns,
        startup_lost_share=startup_lost_ns / total_ns if total_ns else 0.0,
        later_lost_share=later_lost_ns / total_ns if total_ns else 0.0,
        lost_samples=None if samples is None else int(samples[story.skipped].sum()),
    )


def _streaks(story: StepStory, startup: int) -> tuple[Streak, ...]:
    edges = np.diff(np.r_[0, story.overflowed.astype(np.int8), 0])
    begins, ends = np.flatnonzero(edges == 1), np.flatnonzero(edges == -1)
    return tuple(
        _streak(story, int(begin), int(end), startup)
        for begin, end in zip(begins, ends, strict=True)
    )


def _streak(story: StepStory, begin: int, end: int, startup: int) -> Streak:
    before, last = float(story.scale[begin]), float(story.scale[end - 1])
    recovered = _recovery(story, begin, end)
    return Streak(
        first_step=int(story.step[begin]),
        last_step=int(story.step[end - 1]),
        skips=end - begin,
        startup=begin < startup,
        scale_before=None if np.isnan(before) else before,
        scale_last=None if np.isnan(last) else last,
        recovery_steps=None if recovered is None else recovered - begin,
        recovery_ns=None if recovered is None else int(story.wall_ns[begin:recovered].sum()),
    )


def _recovery(story: StepStory, begin: int, end: int) -> int | None:
    """Position of the step in which the streak had recovered."""
    good = ~story.skipped[end:]
    if not np.isnan(story.scale[begin]):
        good &= story.scale[end:] >= story.scale[begin]
    found = np.flatnonzero(good)
    return end + int(found[0]) if len(found) else None
