"""Where a running job stands, read from what its ranks leave: what the live line shows."""

import statistics
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from probe.read.tail import Tail
from probe.schema.tables import MEMORY, STEPS

RECENT_STEPS = 50
_STEP_COLUMNS = ["rank", "step", "wall_ns", "loss", "loss_scale_next", "skipped"]


@dataclass(frozen=True, kw_only=True)
class Progress:
    """A moment of a run."""

    steps: int = 0
    expected_steps: int | None = None
    step_ns: float | None = None
    """Median wall time of the last steps of rank 0."""
    loss: float | None = None
    loss_scale: float | None = None
    skipped: int = 0
    peak_bytes: int | None = None
    """Largest resident or allocated memory of any rank so far."""

    @property
    def remaining_ns(self) -> float | None:
        """Time to the end, where the number of steps is known."""
        if self.expected_steps is None or self.step_ns is None:
            return None
        return max(0, self.expected_steps - self.steps) * self.step_ns


class Watcher:
    """Follows a run directory."""

    def __init__(self, run_dir: Path, expected_steps: int | None = None) -> None:
        self._steps = Tail(run_dir, STEPS, columns=_STEP_COLUMNS)
        self._memory = Tail(
            run_dir, MEMORY, columns=["rank", "peak_rss_bytes", "peak_allocated_bytes"]
        )
        self._recent_ns: deque[int] = deque(maxlen=RECENT_STEPS)
        self._latest = Progress(expected_steps=expected_steps)
        self._peak_bytes = 0

    def look(self) -> Progress:
        """Where the run stands now; where it stood last if its directory cannot be read."""
        with suppress(OSError):
            self._look()
        return self._latest

    def _look(self) -> None:
        news = self._steps.poll()
        if news.from_start:
            # Ranks were started anew and went back: what they did since their checkpoint is void.
            self._recent_ns.clear()
            self._latest = Progress(expected_steps=self._latest.expected_steps)
        mine = [row for row in news.rows.to_pylist() if row["rank"] == 0]
        self._recent_ns.extend(row["wall_ns"] for row in mine)
        for row in self._memory.poll().rows.to_pylist():
            held = row["peak_allocated_bytes"] or row["peak_rss_bytes"] or 0
            self._peak_bytes = max(self._peak_bytes, held)
        if mine:
            last = mine[-1]
            self._latest = Progress(
                expected_steps=self._latest.expected_steps,
                steps=last["step"] + 1,
                step_ns=statistics.median(self._recent_ns),
                loss=last["loss"],
                loss_scale=last["loss_scale_next"],
                skipped=self._latest.skipped + sum(row["skipped"] for row in mine),
                peak_bytes=self._peak_bytes or None,
            )
