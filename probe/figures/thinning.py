"""Fewer points for the same picture: the least and the largest of every bucket, and every event.

Deterministic: the same series gives the same points. The first and the last point stay, and so do
all events (a step that overflowed, was skipped, changed the scale, is no number) as long as they
fill no more than half of the limit; beyond that every bucket that has events keeps one.
"""

import numpy as np
import numpy.typing as npt

MOST_POINTS = 2000
"""Of one trace."""
MOST_MARKS = 400
"""Of one trace of markers: each is an element of its own in the page."""

Positions = npt.NDArray[np.int64]


def thin(
    values: npt.NDArray[np.float64] | npt.NDArray[np.int64],
    *,
    keep: npt.NDArray[np.bool_] | None = None,
    limit: int = MOST_POINTS,
) -> Positions:
    """Positions to draw, in order, no more than the limit; what is not finite is an event."""
    assert limit >= 8, "no picture has so few points"
    total = len(values)
    if total <= limit:
        return np.arange(total)
    finite = np.isfinite(values)
    events = ~finite if keep is None else keep | ~finite
    events[[0, -1]] = True
    marked = np.flatnonzero(events)
    if len(marked) <= limit // 2:
        buckets = (limit - len(marked)) // 2
    else:
        buckets = limit // 3
        marked = marked[_first_of_each(marked * (buckets - 2) // total)]
        marked = np.r_[0, marked, total - 1]
        buckets = (limit - len(marked)) // 2
    ends = _extremes(values, finite, buckets)
    return np.unique(np.concatenate([marked, ends]))


def thin_marks(
    positions: Positions, total: int, *, limit: int = MOST_MARKS
) -> tuple[Positions, Positions]:
    """One position for each bucket that has any, and how many it stands for."""
    if len(positions) <= limit:
        return positions, np.ones(len(positions), dtype=np.int64)
    bucket = positions * limit // total
    first = _first_of_each(bucket)
    return positions[first], np.diff(np.r_[first, len(positions)])


def thin_steps(values: npt.NDArray[np.float64]) -> Positions:
    """Where a step function changes, and its last point: nothing else is needed to draw it."""
    if not len(values):
        return np.arange(0)
    same = (values[1:] == values[:-1]) | (np.isnan(values[1:]) & np.isnan(values[:-1]))
    return np.unique(np.r_[0, np.flatnonzero(~same) + 1, len(values) - 1])


def points_caption(drawn: int, total: int, what: str = "points") -> str:
    """How many of how many are drawn, where it is not all."""
    if drawn >= total:
        return ""
    return f"{drawn:,} of {total:,} {what}: the least and largest of each bucket and every event."


def _first_of_each(sorted_buckets: Positions) -> Positions:
    return np.flatnonzero(np.diff(sorted_buckets, prepend=-1))


def _extremes(
    values: npt.NDArray[np.float64] | npt.NDArray[np.int64],
    finite: npt.NDArray[np.bool_],
    buckets: int,
) -> Positions:
    """The positions of the least and the largest finite value of each bucket."""
    total = len(values)
    width = -(-total // buckets)
    rows = -(-total // width)
    result = []
    for filler, choose in ((np.inf, np.argmin), (-np.inf, np.argmax)):
        padded = np.full(rows * width, filler)
        padded[:total] = np.where(finite, values, filler)
        result.append(choose(padded.reshape(rows, width), axis=1) + np.arange(rows) * width)
    positions: Positions = np.minimum(np.concatenate(result), total - 1)
    return positions
