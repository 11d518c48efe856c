import numpy as np
import pytest

from probe.analyse.steps.steps import Exclusion, counted_steps
from probe.analyse.steps.warm_up import count_warm_up
from probe.schema.rows import StepRow
from probe.schema.tables import STEPS
from probe.schema.vocabulary import Phase
from tests.analyse.hand_built import table_of


def step(number, wall_ns=100, **other):
    return StepRow(step=number, begin_ns=0, wall_ns=wall_ns, **other)


def counted(rows_by_rank):
    return counted_steps(table_of(STEPS, rows_by_rank))


def test_a_step_takes_as_long_as_its_slowest_rank():
    found = counted(
        {
            0: [step(0, 100, forward_ns=60), step(1, 103, forward_ns=70)],
            1: [step(0, 101, forward_ns=90), step(1, 102, forward_ns=80)],
        }
    )
    assert found.wall_ns.tolist() == [101, 103]
    assert found.critical_rank.tolist() == [1, 0]
    assert found.phase_ns[Phase.FORWARD].tolist() == [90, 70]


def test_phases_sum_to_the_wall_time_even_if_the_recorder_forgot_some():
    found = counted({0: [step(0, 100, forward_ns=30, backward_ns=50)]})
    assert found.phase_ns[Phase.OTHER].tolist() == [20]
    assert sum(int(part[0]) for part in found.phase_ns.values()) == 100


def test_each_step_is_left_out_for_one_reason_and_all_are_accounted_for():
    profiled = [step(n, profiled=n in (4, 5), skipped=n in (5, 6)) for n in range(10)]
    plain = [step(n) for n in range(9)]
    found = counted({0: profiled, 1: plain})
    assert found.excluded == {
        Exclusion.INCOMPLETE: 1,  # step 9 on one rank only
        Exclusion.PROFILED: 2,
        Exclusion.SKIPPED: 1,  # step 5 is both, and profiled comes first
        Exclusion.WARM_UP: 0,
    }
    assert found.step.tolist() == [0, 1, 2, 3, 7, 8]
    assert found.recorded == len(found) + sum(found.excluded.values())


def test_a_rank_that_stopped_recording_early_does_not_take_the_run_with_it():
    found = counted({0: [step(n) for n in range(20)], 1: [step(n) for n in range(3)]})
    assert len(found) == 20


def test_the_last_attempt_of_a_repeated_step_stands():
    first, again = [step(n, 100) for n in range(6)], [step(n, 102) for n in range(4, 8)]
    rows = sorted([*first, *again], key=lambda row: row.step)
    found = counted({0: rows, 1: rows})
    assert found.repeated == 2
    assert found.wall_ns.tolist() == [100, 100, 100, 100, 102, 102, 102, 102]


def test_samples_are_those_of_all_ranks_and_unknown_if_one_does_not_tell():
    telling = [step(0, samples=8, tokens=80)]
    found = counted({0: telling, 1: [step(0, samples=4)]})
    assert found.samples.tolist() == [12]
    assert found.tokens is None


def test_a_run_without_steps_has_none_that_count():
    found = counted({})
    assert len(found) == 0
    assert found.recorded == 0
    assert found.samples is None


def test_the_slow_beginning_is_warm_up():
    found = counted({0: [step(n, 1000 if n < 3 else 100) for n in range(40)]})
    assert found.excluded[Exclusion.WARM_UP] == 3
    assert found.step[0] == 3


@pytest.mark.parametrize(
    ("walls", "warm_up"),
    [
        ([], 0),
        ([900], 0),
        ([900, 100], 1),
        ([900, 100, 100], 1),
        ([100] * 30, 0),
        ([900] + [100] * 30, 1),
        ([900, 100, 400, 100, 400, 400] + [100] * 30, 3),  # one quick step settles nothing
        ([900, 500, 300, 200, 150, 120] + [100] * 30, 6),
        ([50, 50, 50] + [100] * 30, 3),  # quick beginnings are no better
        ([100] * 20 + [900] + [100] * 20, 0),  # a later spike is no warm-up
        ([1000] * 20 + [100] * 20, 20),  # at most half
    ],
)
def test_warm_up_ends_where_a_step_and_the_window_it_begins_have_settled(walls, warm_up):
    assert count_warm_up(np.array(walls, dtype=np.int64)) == warm_up


def test_steady_noise_is_hardly_ever_taken_for_warm_up():
    chance = np.random.default_rng(0)
    found = [
        count_warm_up((1e8 * (1 + 0.05 * chance.normal(size=200))).astype(np.int64))
        for _ in range(300)
    ]
    assert np.mean(np.array(found) > 0) < 0.02
    assert max(found) <= 3
