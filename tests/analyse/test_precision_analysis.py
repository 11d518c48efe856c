import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from probe.analyse.precision.loss_scale import SETTLED_STEPS, scale_history
from probe.analyse.precision.skips import summarise_skips
from probe.analyse.steps.by_step import story_of_steps
from probe.schema.rows import StepRow
from probe.schema.tables import STEPS
from probe.schema.vocabulary import SkipReason
from tests.analyse.hand_built import table_of

K = 1024.0


def story(rows_by_rank):
    return story_of_steps(table_of(STEPS, rows_by_rank))


def scaled(scales, *, skipped=(), wall_ns=100, **other):
    """One row a step; the scale after a step is that of the next one."""
    return [
        StepRow(
            step=n,
            begin_ns=0,
            wall_ns=wall_ns,
            loss_scale=scale,
            loss_scale_next=scales[n + 1] if n + 1 < len(scales) else scale,
            skipped=n in skipped,
            skip_reason=SkipReason.OVERFLOW if n in skipped else None,
            **other,
        )
        for n, scale in enumerate(scales)
    ]


# The scaler with window 4 and hysteresis 2, as it runs in every stage: scale used in each step.
ORACLE = [64, 64, 64, 64, 64, 128, 128, 64, 64, 32, 32, 32, 32, 32, 64, 64]
ORACLE_SKIPS = (5, 6, 8, 14)


def oracle():
    return story({0: scaled([K * scale for scale in ORACLE], skipped=ORACLE_SKIPS)})


def test_the_scale_is_kept_as_a_step_function():
    found = scale_history(oracle())
    assert [(s.first_step, s.last_step, s.scale / K) for s in found.stretches] == [
        (0, 4, 64),
        (5, 6, 128),
        (7, 8, 64),
        (9, 13, 32),
        (14, 15, 64),
    ]
    assert (found.raised, found.lowered) == (2, 2)
    assert (found.lowest / K, found.highest / K, found.scale_now / K) == (32, 128, 64)


@given(st.lists(st.sampled_from([1.0, 2.0, 4.0, math.inf]), min_size=1, max_size=60))
def test_written_out_again_the_stretches_give_every_scale(scales):
    stretches = scale_history(story({0: scaled(scales)})).stretches
    assert [s.scale for s in stretches for _ in range(s.steps)] == scales
    assert [s.first_step for s in stretches][1:] == [s.last_step + 1 for s in stretches][:-1]


def test_a_run_without_a_scale_has_no_history():
    assert scale_history(story({0: [StepRow(step=0, begin_ns=0, wall_ns=1)]})) is None
    assert scale_history(story({})) is None


def test_streaks_and_how_long_each_took_to_recover():
    found = summarise_skips(oracle())
    assert [(s.first_step, s.skips, s.recovery_steps) for s in found.streaks] == [
        (5, 2, None),  # 128 K is never used again
        (8, 1, 7),  # 64 K is back in step 14, which overflows, and applied in step 15
        (14, 1, 1),  # tolerated: the scale stayed
    ]
    assert found.streaks[1].recovery_ns == 700
    assert found.overflows == 4
    assert found.overflow_share == 0.25
    assert found.longest_streak.first_step == 5


def test_start_up_ends_with_the_first_long_row_of_applied_steps():
    # 2^16 is four powers too high: five overflows (the first is tolerated), then quiet, then one.
    scales = [65536.0, 65536.0, 32768.0, 16384.0, 8192.0] + [4096.0] * (SETTLED_STEPS + 5)
    skipped = (0, 1, 2, 3, 4, 28)
    rows = scaled(scales, skipped=skipped, samples=8)
    found = summarise_skips(story({0: rows, 1: rows}))
    assert (found.startup_overflows, found.later_overflows) == (5, 1)
    assert [streak.startup for streak in found.streaks] == [True, False]
    assert found.later_overflow_share == 1 / 25
    assert (found.lost_ns, found.startup_lost_ns) == (600, 500)
    assert found.lost_time_share == 600 / 3000
    assert found.lost_samples == 6 * 16
    history = scale_history(story({0: rows}))
    assert (history.settled_step, history.settled_scale) == (5, 4096)
    assert history.recommended_initial_power == 12


def test_a_run_that_never_settles_is_all_start_up():
    found = summarise_skips(story({0: scaled([4.0, 2.0, 1.0], skipped=(0, 1, 2))}))
    assert (found.startup_overflows, found.later_overflows) == (3, 0)
    assert scale_history(story({0: scaled([4.0])})).recommended_initial_power is None


def test_one_rank_that_skips_is_enough_and_want_of_a_gradient_is_no_overflow():
    good, bad = scaled([1.0] * 3), scaled([1.0] * 3, skipped=(1,))
    empty = StepRow(step=3, begin_ns=0, wall_ns=1, skipped=True, skip_reason=SkipReason.NO_GRADIENT)
    unsaid = StepRow(step=4, begin_ns=0, wall_ns=1, skipped=True)
    found = summarise_skips(story({0: good, 1: [*bad, empty, unsaid]}))
    assert (found.overflows, found.without_gradient) == (2, 1)


def test_what_no_rank_states_is_nan_and_the_lowest_rank_is_believed():
    silent = [StepRow(step=0, begin_ns=0, wall_ns=1), StepRow(step=1, begin_ns=0, wall_ns=1)]
    telling = [StepRow(step=1, begin_ns=0, wall_ns=5, loss_scale=8.0)]
    found = story({0: silent, 1: telling, 2: [StepRow(step=1, begin_ns=0, wall_ns=1)]})
    assert np.isnan(found.scale[0])
    assert found.scale[1] == 8
    assert found.wall_ns.tolist() == [1, 5]
    assert found.samples is None


@pytest.mark.parametrize("skips", [(), (0,), (3,), tuple(range(40))])
def test_every_overflow_is_in_one_streak(skips):
    found = summarise_skips(story({0: scaled([1.0] * 40, skipped=skips)}))
    assert sum(streak.skips for streak in found.streaks) == found.overflows == len(skips)
    assert found.startup_overflows + found.later_overflows == len(skips)
