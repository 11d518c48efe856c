"""Which rank holds the others up: told from noise, from trifles and from ranks that only wait."""

import random

import pytest

from probe.analyse.steps.balance import rank_balance
from probe.analyse.steps.steps import counted_steps
from probe.analyse.steps.straggler import Cause
from probe.schema.rows import CommRow, StepRow
from probe.schema.tables import COMM, STEPS
from probe.schema.vocabulary import CollectiveOp, Phase
from tests.analyse.hand_built import table_of

MS = 10**6
STEPS_MADE = 12
WALL_MS = 1000


def balance(own_ms, *, busy_ms=None, exposed_ms=None, data_ms=None, count=STEPS_MADE):
    """Ranks that compute for so long twice a step; `own_ms` may be a function of the step."""

    def at(value, step):
        return round(MS * (value(step) if callable(value) else value))

    rows = {
        rank: [
            StepRow(
                step=n,
                begin_ns=0,
                wall_ns=WALL_MS * MS,
                data_ns=at((data_ms or {}).get(rank, 0), n),
                forward_ns=at(own, n),
                backward_ns=at(own, n),
            )
            for n in range(count)
        ]
        for rank, own in own_ms.items()
    }
    op = CollectiveOp.ALL_GATHER
    traffic = {
        rank: [
            CommRow(
                step=n,
                phase=Phase.FORWARD,
                op=op,
                wire_op=op,
                group_size=4,
                busy_ns=at(busy, n),
                exposed_ns=at((exposed_ms or {}).get(rank, 0), n),
            )
            for n in range(count)
        ]
        for rank, busy in (busy_ms or {}).items()
    }
    steps = table_of(STEPS, rows)
    return rank_balance(steps, table_of(COMM, traffic), counted_steps(steps))


def test_a_rank_that_computes_longer_is_a_slow_computer():
    # The others wait for rank 2 in their collectives.
    result = balance({0: 300, 1: 300, 2: 400}, busy_ms={0: 250, 1: 250, 2: 50})
    assert (result.straggler.rank, result.straggler.cause) == (2, Cause.SLOW_COMPUTE)
    assert (result.straggler.excess_ns, result.straggler.step_share) == (200 * MS, 0.2)
    assert balance({0: 300, 1: 400}, data_ms={1: 20}).straggler.cause is Cause.SLOW_COMPUTE


def test_a_rank_that_waits_for_its_batches_is_short_of_data():
    result = balance({0: 300, 1: 300}, data_ms={1: 200}, busy_ms={0: 250, 1: 50})
    assert (result.straggler.rank, result.straggler.cause) == (1, Cause.SLOW_DATA)


def test_a_rank_whose_collectives_alone_take_longer_has_a_slow_link():
    result = balance({0: 300, 1: 301, 2: 299}, busy_ms={0: 200, 1: 300, 2: 200})
    assert (result.straggler.rank, result.straggler.cause) == (1, Cause.SLOW_LINK)
    assert result.straggler.excess_ns == 100 * MS


def test_a_link_has_two_ends_and_who_waits_is_not_slow():
    assert balance({0: 300, 1: 300}, busy_ms={0: 200, 1: 300}).straggler is None
    early = balance(
        {0: 300, 1: 300, 2: 300},
        busy_ms={0: 200, 1: 300, 2: 200},
        exposed_ms={0: 100, 1: 180, 2: 100},  # its update is done 80 ms before that of the others
    )
    assert early.straggler is None


def test_even_ranks_have_no_straggler():
    assert balance({0: 300, 1: 305, 2: 310}, busy_ms={0: 200, 1: 210, 2: 200}).straggler is None
    assert balance({0: 300, 1: 300, 2: 320}).straggler is None  # within a tenth
    assert balance({0: 5, 1: 9}).straggler is None  # far apart, and nothing in a step of 1000
    assert balance({0: 300}) is None
    assert balance({0: 300, 1: 400}, count=4).straggler is None  # too few steps to tell


def noisy(level, spread, seed):
    chance = random.Random(seed)
    return lambda step: max(1.0, chance.gauss(level, spread))


@pytest.mark.parametrize("seed", range(20))
def test_a_rank_that_chance_makes_the_slowest_is_no_straggler(seed):
    """On a machine that others share a rank's time varies by half from step to step: in a score of
    steps the medians of two lie far apart."""
    own = {rank: noisy(100, 50, 10 * seed + rank) for rank in range(4)}
    busy = {rank: noisy(200, 80, 1000 + 10 * seed + rank) for rank in range(4)}
    assert balance(own, busy_ms=busy, count=20).straggler is None


@pytest.mark.parametrize("seed", range(5))
def test_a_rank_that_is_slower_than_noise_is_a_straggler(seed):
    own = {rank: noisy(150 if rank == 3 else 100, 15, 10 * seed + rank) for rank in range(4)}
    result = balance(own, count=40)
    assert (result.straggler.rank, result.straggler.cause) == (3, Cause.SLOW_COMPUTE)
    assert result.straggler.excess_ns == pytest.approx(100 * MS, rel=0.2)


def test_what_disturbs_all_ranks_in_a_step_hides_no_straggler():
    """The machine is twice as slow in every other step, for all of them alike."""

    def weather(level):
        return lambda step: level * (1 + step % 2)

    result = balance({0: weather(100), 1: weather(100), 2: weather(115)}, count=20)
    assert result.straggler.rank == 2


def test_ranks_that_were_lost_take_part_while_they_were_there():
    rows = {
        rank: [
            StepRow(step=n, begin_ns=0, wall_ns=100 * MS, forward_ns=(80 if rank else 40) * MS)
            for n in range(30 if rank < 2 else 3)
        ]
        for rank in range(3)
    }
    steps = table_of(STEPS, rows)
    result = rank_balance(steps, table_of(COMM, {}), counted_steps(steps))
    assert result.straggler.rank == 1
    assert result.own_ns == {0: 40 * MS, 1: 80 * MS, 2: 80 * MS}


def loaded(tokens_by_rank):
    rows = {
        rank: [
            StepRow(step=n, begin_ns=0, wall_ns=1000, samples=8, tokens=each(n)) for n in range(20)
        ]
        for rank, each in tokens_by_rank.items()
    }
    steps = table_of(STEPS, rows)
    return rank_balance(steps, table_of(COMM, {}), counted_steps(steps))


def test_load_is_told_in_tokens_where_there_are_tokens():
    result = loaded({0: lambda n: 100, 1: lambda n: 300})
    assert (result.load, result.load_unit) == ({0: 100, 1: 300}, "tokens")
    assert (result.load_excess, result.load_error) == (0.5, 0)


def test_load_that_varies_from_step_to_step_has_an_error():
    chance = random.Random(1)
    result = loaded({rank: lambda n: chance.randrange(20, 200) for rank in range(4)})
    assert result.load_excess < 3 * result.load_error
