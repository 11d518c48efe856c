"""Thinning keeps what matters: extremes, ends, events; never too much, always the same."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from probe.figures.thinning import (
    MOST_MARKS,
    MOST_POINTS,
    points_caption,
    thin,
    thin_marks,
    thin_steps,
)

VALUES = arrays.arrays(
    np.float64,
    st.integers(1, 3000),
    elements=st.one_of(
        st.floats(-1e9, 1e9), st.sampled_from([float("nan"), float("inf"), float("-inf")])
    ),
    fill=st.floats(-5, 5),
)
LIMITS = st.integers(8, 500)


@given(VALUES, LIMITS)
def test_never_more_than_the_limit_in_order_and_with_both_ends(values, limit) -> None:
    kept = thin(values, limit=limit)
    assert len(kept) <= limit
    assert (np.diff(kept) > 0).all()
    assert kept[0] == 0
    assert kept[-1] == len(values) - 1


@given(VALUES, LIMITS)
def test_the_largest_and_the_least_stay(values, limit) -> None:
    kept = values[thin(values, limit=limit)]
    finite = values[np.isfinite(values)]
    if len(finite):
        assert np.max(kept[np.isfinite(kept)]) == finite.max()
        assert np.min(kept[np.isfinite(kept)]) == finite.min()


@given(VALUES, LIMITS, st.data())
def test_no_event_is_lost_while_they_fill_less_than_half(values, limit, data) -> None:
    places = data.draw(st.sets(st.integers(0, len(values) - 1), max_size=limit // 2 - 2))
    events = np.zeros(len(values), dtype=bool)
    events[list(places)] = True
    quiet = np.where(np.isfinite(values), values, 0.0)
    assert places <= set(thin(quiet, keep=events, limit=limit).tolist())


@given(VALUES)
def test_values_that_are_no_number_are_events(values) -> None:
    kept = values[thin(values, limit=100)]
    assert np.isnan(values).any() == np.isnan(kept).any()
    assert np.isinf(values).any() == np.isinf(kept).any()


@given(st.integers(3000, 20_000), st.integers(24, 400), st.integers(0, 10**6))
def test_of_too_many_events_every_bucket_keeps_one(total, limit, seed) -> None:
    chance = np.random.default_rng(seed)
    events = chance.random(total) < 0.9
    kept = thin(np.arange(total), keep=events, limit=limit)
    drawn = np.zeros(total, dtype=bool)
    drawn[kept] = True
    width = 2 * total // (limit // 3 - 2) + 2
    for start in range(0, total - width, width):
        here = slice(start, start + width)
        assert not events[here].any() or (drawn[here] & events[here]).any()


@given(VALUES)
def test_the_same_series_gives_the_same_points(values) -> None:
    assert (thin(values, limit=64) == thin(values.copy(), limit=64)).all()


def test_a_short_series_is_drawn_whole() -> None:
    assert len(thin(np.zeros(MOST_POINTS))) == MOST_POINTS
    assert len(thin(np.zeros(MOST_POINTS + 1))) < MOST_POINTS


@given(st.sets(st.integers(0, 99_999), min_size=1, max_size=3000))
def test_marks_stand_for_all_of_their_kind(places) -> None:
    positions = np.array(sorted(places))
    marks, counts = thin_marks(positions, 100_000)
    assert len(marks) <= MOST_MARKS
    assert counts.sum() == len(positions)
    assert set(marks.tolist()) <= places
    # Nothing is farther from its mark than a bucket is wide.
    distances = np.abs(positions[:, None] - marks[None, :]).min(axis=1)
    assert distances.max() <= 100_000 / MOST_MARKS + 1


@given(arrays.arrays(np.float64, st.integers(0, 300), elements=st.sampled_from([1.0, 2.0, 4.0])))
def test_a_step_function_is_told_exactly_by_its_corners(values) -> None:
    corners = thin_steps(values)
    if len(values):
        runs = np.diff(np.r_[corners, len(values)])
        again = np.repeat(values[corners], runs)
        assert (again == values).all()


@pytest.mark.parametrize(("drawn", "total", "told"), [(5, 5, False), (5, 6, True)])
def test_the_caption_says_when_not_all_is_drawn(drawn, total, told) -> None:
    assert bool(points_caption(drawn, total)) is told
    assert not told or points_caption(2000, 412_338).startswith("2,000 of 412,338 points")
