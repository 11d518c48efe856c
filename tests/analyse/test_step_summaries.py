import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probe.analyse.steps.phases import phase_times, recompute_share
from probe.analyse.steps.regularity import regularity
from probe.analyse.steps.steps import counted_steps
from probe.analyse.steps.throughput import throughput, useful_share
from probe.schema.rows import StepRow
from probe.schema.tables import STEPS
from probe.schema.vocabulary import Phase
from tests.analyse.hand_built import table_of


def rows(walls, **other):
    return [StepRow(step=n, begin_ns=0, wall_ns=wall, **other) for n, wall in enumerate(walls)]


def counted(rows_of_rank_0):
    return counted_steps(table_of(STEPS, {0: rows_of_rank_0}))


def test_shares_give_rare_long_phases_their_due_and_medians_do_not():
    usual = [StepRow(step=n, begin_ns=0, wall_ns=100, forward_ns=40) for n in range(9)]
    saving = StepRow(step=9, begin_ns=0, wall_ns=200, forward_ns=40, checkpoint_ns=100)
    by_phase = {item.phase: item for item in phase_times(counted([*usual, saving]))}
    assert by_phase[Phase.CHECKPOINT].median_ns == 0
    assert by_phase[Phase.CHECKPOINT].share == pytest.approx(100 / 1100)
    assert by_phase[Phase.FORWARD].median_ns == 40
    assert by_phase[Phase.OTHER].share == pytest.approx(600 / 1100)


@given(
    st.lists(
        st.tuples(st.integers(1, 10**10), st.integers(0, 10**9), st.integers(0, 10**9)), min_size=1
    )
)
def test_shares_always_sum_to_one(parts):
    steps = [
        StepRow(step=n, begin_ns=0, wall_ns=wall, forward_ns=forward, backward_ns=backward)
        for n, (wall, forward, backward) in enumerate(parts)
    ]
    shares = [item.share for item in phase_times(counted(steps))]
    assert math.fsum(shares) == pytest.approx(1)


def test_recomputation_is_a_share_of_the_whole_step():
    assert recompute_share(counted(rows([100] * 4, backward_ns=60, recompute_ns=20))) == 0.2


def test_throughput_is_that_of_a_usual_step():
    steps = rows([10**9] * 20, samples=16, tokens=2048)
    steps[10] = StepRow(step=10, begin_ns=0, wall_ns=9 * 10**9, samples=16, tokens=2048)
    found = throughput(counted(steps))
    assert (found.steps_per_s, found.samples_per_s, found.tokens_per_s) == (1, 16, 2048)


def test_throughput_of_a_silent_run_is_unknown():
    assert throughput(counted(rows([10**9] * 4))).samples_per_s is None
    assert throughput(counted([])).steps_per_s is None


def test_skipped_time_is_not_useful():
    steps = [*rows([100] * 3), StepRow(step=3, begin_ns=0, wall_ns=100, skipped=True)]
    assert useful_share(table_of(STEPS, {0: steps})) == 0.75


def test_noise_and_neighbourhood():
    found = regularity(counted(rows([98, 102] * 20)))
    assert found.noise == pytest.approx(0.02)
    assert found.autocorrelation == pytest.approx(-0.975)
    assert found.spikes is None


def test_noise_and_small_growth_are_no_spikes():
    assert regularity(counted(rows([60, 140] * 20))).spikes is None
    assert regularity(counted(rows([100] * 20 + [120] + [100] * 20))).spikes is None


def test_periodic_spikes_are_named_with_their_period_and_phase():
    steps = [
        StepRow(step=n, begin_ns=0, wall_ns=200, data_ns=100)
        if n % 10 == 9
        else StepRow(step=n, begin_ns=0, wall_ns=100)
        for n in range(60)
    ]
    steps[29] = StepRow(step=29, begin_ns=0, wall_ns=200, skipped=True)  # one is not seen
    spikes = regularity(counted(steps)).spikes
    assert spikes.steps == (9, 19, 39, 49, 59)
    assert spikes.period_steps == 10
    assert spikes.phase is Phase.DATA
    assert spikes.excess_ns == 500
    assert spikes.excess_share == pytest.approx(500 / 6400)


@pytest.mark.parametrize("at", [(5,), (5, 17, 31), (20, 21, 22, 23)])
def test_irregular_or_neighbouring_spikes_have_no_period(at):
    steps = rows([200 if n in at else 100 for n in range(40)])
    spikes = regularity(counted(steps)).spikes
    assert spikes.steps == at
    assert spikes.period_steps is None
