"""The algebra of sets of time: union, intersection, difference, measure.

A set is kept as sorted, disjoint, half-open intervals; every operation is a sort and a running sum.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from probe.read.trace import Int64s


@dataclass(frozen=True)
class Intervals:
    """A set of moments in ns; build it with `merge`."""

    starts: Int64s
    ends: Int64s

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def total_ns(self) -> int:
        """The measure of the set."""
        return int((self.ends - self.starts).sum())

    @cached_property
    def _measure_before(self) -> Int64s:
        """The measure of all intervals before each one, and of all."""
        return np.concatenate([[0], np.cumsum(self.ends - self.starts)])

    def measure_until(self, moments: Int64s) -> Int64s:
        """The measure of the part that lies before each moment."""
        if not len(self):
            return np.zeros(len(moments), np.int64)
        entered = np.searchsorted(self.starts, moments, side="right")
        last = np.maximum(entered - 1, 0)
        beyond = np.where(entered > 0, np.maximum(self.ends[last] - moments, 0), 0)
        measured: Int64s = self._measure_before[entered] - beyond
        return measured

    def measure_within(self, begins: Int64s, ends: Int64s) -> Int64s:
        """The measure of the part that lies in each window."""
        return self.measure_until(ends) - self.measure_until(begins)

    def clip(self, begin_ns: int, end_ns: int) -> "Intervals":
        """The part that lies in one window."""
        starts = np.maximum(self.starts, begin_ns)
        ends = np.minimum(self.ends, end_ns)
        kept = starts < ends
        return Intervals(starts[kept], ends[kept])


EMPTY = Intervals(np.empty(0, np.int64), np.empty(0, np.int64))


def merge(starts: Int64s, ends: Int64s) -> Intervals:
    """The union of any intervals, in any order; those without length are dropped."""
    real = ends > starts
    if not real.any():
        return EMPTY
    starts, ends = starts[real], ends[real]
    order = np.argsort(starts, kind="stable")
    starts, reach = starts[order], np.maximum.accumulate(ends[order])
    apart = starts[1:] > reach[:-1]
    return Intervals(
        starts[np.concatenate([[True], apart])], reach[np.concatenate([apart, [True]])]
    )


def window(begin_ns: int, end_ns: int) -> Intervals:
    """The set of one interval."""
    return merge(np.array([begin_ns], np.int64), np.array([end_ns], np.int64))


def union(*sets: Intervals) -> Intervals:
    """What lies in any of the sets."""
    return merge(
        np.concatenate([item.starts for item in sets]), np.concatenate([item.ends for item in sets])
    )


def intersect(one: Intervals, other: Intervals) -> Intervals:
    """What lies in both."""
    return _where(one, other, state=3)


def subtract(one: Intervals, other: Intervals) -> Intervals:
    """What lies in the first and not in the second."""
    return _where(one, other, state=1)


def _where(one: Intervals, other: Intervals, *, state: int) -> Intervals:
    """Where the running sum of 1 within the first and 2 within the second is `state`."""
    times = np.concatenate([one.starts, one.ends, other.starts, other.ends])
    counts = [len(one), len(one), len(other), len(other)]
    changes = np.repeat(np.array([1, -1, 2, -2]), counts)
    order = np.argsort(times, kind="stable")
    times = times[order]
    within = np.cumsum(changes[order])[:-1] == state
    return merge(times[:-1][within], times[1:][within])
