"""A run while it goes on: its steps as they come, and nothing read twice."""

import time
from dataclasses import dataclass
from pathlib import Path

from probe.analyse.series.step_series import STEP_SERIES_COLUMNS, StepSeries, step_series
from probe.analyse.series.training_series import (
    TRAINING_SERIES_COLUMNS,
    TrainingSeries,
    training_series,
)
from probe.analyse.steps.regularity import regularity
from probe.analyse.steps.steps import counted_steps
from probe.read.growing import GrowingTable
from probe.read.problem import Problem
from probe.schema.tables import STEPS

COLUMNS = tuple(dict.fromkeys((*STEP_SERIES_COLUMNS, *TRAINING_SERIES_COLUMNS)))


@dataclass(frozen=True, kw_only=True, eq=False)
class Followed:
    """The steps of a run as far as they were written."""

    steps: StepSeries
    training: TrainingSeries
    median_wall_ns: float | None
    """Of the steps that count."""
    problems: tuple[Problem, ...]
    version: int
    """Changes when there is something new to draw, and not otherwise."""
    changed_ns: int
    """Wall clock of the look that found it."""

    @property
    def last_step(self) -> int | None:
        """The last step that any rank ended."""
        return int(self.steps.step[-1]) if len(self.steps) else None

    def left_ns(self, expected_steps: int | None) -> float | None:
        """Time to the end at the usual pace; None if the end or the pace is not known."""
        if expected_steps is None or self.median_wall_ns is None or self.last_step is None:
            return None
        return max(0, expected_steps - self.last_step - 1) * self.median_wall_ns


class Follower:
    """Looks at one run again and again."""

    def __init__(self, root: Path) -> None:
        self._table = GrowingTable(root, STEPS, columns=COLUMNS)
        self._followed: Followed | None = None

    def look(self) -> Followed:
        """What is known now; the same object as before if nothing came."""
        grown = self._table.look()
        known = self._followed
        if known is not None and known.version == grown.version:
            return known
        counted = counted_steps(grown.rows)
        even = regularity(counted)
        self._followed = Followed(
            steps=step_series(grown.rows, counted),
            training=training_series(grown.rows),
            median_wall_ns=even.median_ns if even else None,
            problems=grown.problems,
            version=grown.version,
            changed_ns=time.time_ns(),
        )
        return self._followed
