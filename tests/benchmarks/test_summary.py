"""The arithmetic of the tables, on made-up records."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.interleave import Record
from benchmarks.summary import compare, fastest, summarise


def record_of(name: str, rounds_ns, **changes) -> Record:
    rounds = tuple(tuple(one_round) for one_round in rounds_ns)
    plain = Record(
        contestant=name,
        rounds_ns=rounds,
        cpu_rounds_ns=rounds,
        losses=(2.0, 1.0),
        parts_ns={},
        base_bytes=100,
        peak_bytes=250,
    )
    return replace(plain, **changes)


def test_the_figures_of_a_known_record():
    summary = summarise(record_of("a", [[10, 20, 30], [40, 1000]], parts_ns={"update": (1, 2, 9)}))
    assert summary.steps == 5
    assert summary.median_ns == 30
    assert summary.mad_ns == 10
    assert summary.p10_ns == pytest.approx(14)
    assert summary.p90_ns == pytest.approx(616)
    assert summary.cpu_ns == 30
    assert summary.last_loss == 1.0
    assert summary.parts_ns == {"update": 2}


def test_a_ratio_is_of_medians():
    ratio = compare(record_of("a", [[8, 8], [8, 8]]), record_of("b", [[10, 10], [10, 99]]))
    assert ratio.value == pytest.approx(0.8)
    assert (ratio.above, ratio.below) == ("a", "b")


def test_a_machine_that_slows_down_between_rounds_does_not_widen_the_interval():
    # GIVEN every round is slower than the one before, for both alike
    slowing = [[100 * number] * 3 for number in range(1, 9)]
    halved = [[time // 2 for time in one_round] for one_round in slowing]
    # THEN rounds are drawn together and the ratio is exact
    ratio = compare(record_of("a", halved), record_of("b", slowing))
    assert (ratio.low, ratio.value, ratio.high) == (0.5, 0.5, 0.5)


@settings(max_examples=20, deadline=None)  # 2000 draws each; the machine may be busy
@given(st.lists(st.lists(st.integers(1, 10**9), min_size=3, max_size=3), min_size=2, max_size=6))
def test_the_interval_is_ordered_and_a_contestant_equals_itself(rounds_ns):
    one = record_of("a", rounds_ns)
    ratio = compare(one, one)
    assert ratio.low == ratio.value == ratio.high == 1.0
    double = record_of("b", [[2 * time for time in one_round] for one_round in rounds_ns])
    assert compare(double, one).value == pytest.approx(2.0)


def test_the_fastest_is_chosen_among_those_named():
    records = {
        name: record_of(name, [[time, time]]) for name, time in {"a": 3, "b": 1, "c": 2}.items()
    }
    assert fastest(records, ["a", "c"]).contestant == "c"
