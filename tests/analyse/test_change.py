"""What a comparison says of runs whose truth is known: how often it cries wolf, how often it
finds a real slowdown."""

import itertools
import json
from pathlib import Path

import numpy as np
import pytest

from probe.analyse.compare.change import Direction, adjusted, compare_medians
from probe.analyse.compare.history import EqualRun, KnownSpread, known_spread
from probe.analyse.statistics.median import estimate_median
from tests.analyse.series import step_times

TINY_BAND = 1e-9
"""As good as no band: every interval that excludes 1 is an alarm."""


def changes(*, seed, pairs, steps, correlation, noise, slower=0.0, runs=1, between=0.0, **keywords):
    """Pairs of A and B, B truly slower by a fraction."""
    chance = np.random.default_rng(seed)
    series = step_times(
        chance, steps=steps, correlation=correlation, noise=noise, runs=2 * pairs * runs,
        between=between,
    )  # fmt: skip
    series = series.reshape(pairs, 2, runs, steps)
    for first, second in series:
        sides = [[estimate_median(run) for run in side] for side in (first, second * (1 + slower))]
        yield compare_medians(*sides, **keywords)


def share(found, *directions):
    return sum(change.direction in directions for change in found) / len(found)


def alarms(found):
    return share(found, Direction.HIGHER, Direction.LOWER)


def report(what, value):
    print(f"{what:<66} {value:6.1%}")


@pytest.mark.parametrize("correlation", [0.5, 0.8])
def test_equal_runs_are_seldom_called_different(correlation):
    for steps in (50, 200):
        found = list(changes(seed=1, pairs=100, steps=steps, correlation=correlation, noise=0.05))
        report(
            f"false alarms, autocorrelation {correlation}, {steps} steps, 5 % noise", alarms(found)
        )
        assert alarms(found) <= 0.05


def test_a_real_slowdown_is_found():
    for noise, least in ((0.01, 0.98), (0.03, 0.9), (0.05, 0.5), (0.1, 0.05)):
        found = list(
            changes(seed=2, pairs=60, steps=200, correlation=0.5, noise=noise, slower=0.05)
        )
        power = share(found, Direction.HIGHER)
        report(f"5 % slowdown found, autocorrelation 0.5, 200 steps, {noise:.0%} noise", power)
        assert power >= least
        assert share(found, Direction.LOWER) == 0


@pytest.mark.parametrize("correlation", [0.0, 0.8])
def test_without_a_band_the_interval_alone_keeps_its_promise(correlation):
    # GIVEN 100 equal pairs; steps drawn one by one would miss the truth in a third at 0.8
    found = list(
        changes(
            seed=12, pairs=100, steps=100, correlation=correlation, noise=0.03, material=TINY_BAND
        )
    )
    report(f"intervals that miss 1, autocorrelation {correlation}, 100 steps", alarms(found))
    assert alarms(found) <= 0.1


@pytest.mark.slow
@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.8])
@pytest.mark.parametrize("steps", [50, 200, 1000])
def test_the_interval_holds_what_it_promises(correlation, steps):
    # GIVEN many equal pairs, and no band to hide behind
    pairs = 400 if steps < 1000 else 200
    found = list(
        changes(
            seed=3, pairs=pairs, steps=steps, correlation=correlation, noise=0.05,
            material=TINY_BAND,
        )
    )  # fmt: skip
    # THEN 95 % intervals miss the truth in about 5 % (three standard errors above at most)
    report(f"intervals that miss 1, autocorrelation {correlation}, {steps} steps", alarms(found))
    assert alarms(found) <= 0.05 + 3 * (0.05 * 0.95 / pairs) ** 0.5


@pytest.mark.slow
@pytest.mark.parametrize("runs", [2, 3, 5])
def test_runs_that_differ_by_themselves_need_several_a_side(runs):
    # GIVEN starts of the same program that differ by 2 % for no reason
    found = list(
        changes(
            seed=4, pairs=200, steps=50, correlation=0.5, noise=0.03, runs=runs, between=0.02
        )
    )  # fmt: skip
    report(f"false alarms, {runs} + {runs} runs that differ by 2 %", alarms(found))
    assert alarms(found) <= 0.05
    single = list(changes(seed=4, pairs=200, steps=50, correlation=0.5, noise=0.03, between=0.02))
    report("the same with one run a side, which says so", alarms(single))
    assert all(change.between_runs is None for change in single)


@pytest.fixture(scope="module")
def recorded():
    """Ten real starts of one program on a machine that was anything but calm."""
    content = json.loads(Path(__file__).with_name("recorded_step_times.json").read_text())
    return [np.array(times, dtype=float) for times in content["step_us"]]


def test_recorded_halves_of_a_run_are_not_called_different(recorded):
    # GIVEN each run dealt into two by turns of ten steps, so that both saw the same weather
    halves = [run.reshape(-1, 2, 10).swapaxes(0, 1).reshape(2, -1) for run in recorded]
    found = [
        compare_medians([estimate_median(first)], [estimate_median(second)])
        for first, second in halves
    ]
    report(f"false alarms, {len(found)} recorded runs against themselves", alarms(found))
    assert alarms(found) <= 0.05


def test_recorded_starts_of_one_program_are_not_called_different(recorded):
    # GIVEN medians that differ fourfold for no reason but the machine's
    estimates = [estimate_median(run) for run in recorded]
    medians = [item.median for item in estimates]
    assert max(medians) > 3 * min(medians)
    found = [
        compare_medians([estimates[at] for at in first], [estimates[at] for at in second])
        for chosen in itertools.combinations(range(len(recorded)), 6)
        for first, second in [(chosen[::2], chosen[1::2])]
    ]
    report(f"false alarms, 3 + 3 recorded runs, {len(found)} ways", alarms(found))
    assert alarms(found) <= 0.05
    # THEN one run a side would say more than it knows, and says that it does not know
    single = [
        compare_medians([first], [second]) for first, second in itertools.combinations(estimates, 2)
    ]
    report("the same with one run a side, which says so", alarms(single))
    assert all(change.between_runs is None for change in single)


def with_history(*, seed, pairs, others, between, steps=50, slower=0.0):
    """One run a side whose setups have been run before; A and B each with `others` such runs."""
    chance = np.random.default_rng(seed)
    for _ in range(pairs):
        series = step_times(
            chance, steps=steps, correlation=0.5, noise=0.02, runs=2 + 2 * others, between=between
        )
        series[1 + others :] *= 1 + slower
        runs = [
            EqualRun(path=str(place), medians={"step_time": float(np.median(times))})
            for place, times in enumerate(series)
        ]
        yield compare_medians(
            [estimate_median(series[0])],
            [estimate_median(series[-1])],
            known=known_spread((runs[1 : 1 + others], runs[1 + others : -1]), "step_time"),
        )


@pytest.mark.parametrize("others", [3, 8])
def test_other_runs_of_the_setups_tell_how_runs_vary(others):
    found = list(with_history(seed=12, pairs=200, others=others, between=0.04))
    report(f"false alarms, 1 + 1 runs that differ by 4 %, {others} others each", alarms(found))
    assert alarms(found) <= 0.05
    assert all(change.history == 2 * others for change in found)
    assert np.median([change.between_runs for change in found]) == pytest.approx(0.04, rel=0.2)
    unknowing = list(with_history(seed=12, pairs=200, others=1, between=0.04))
    report("the same without them, which says so", alarms(unknowing))
    assert alarms(unknowing) > 0.05
    assert all(change.between_runs is None for change in unknowing)


def test_a_slowdown_beyond_what_runs_vary_by_is_found():
    found = list(with_history(seed=13, pairs=100, others=8, between=0.005, steps=200, slower=0.05))
    report(
        "5 % slowdown found, 1 + 1 runs that differ by 0.5 %, 8 others each",
        share(found, Direction.HIGHER),
    )
    assert share(found, Direction.HIGHER) >= 0.9


def test_history_never_narrows_what_steps_leave_open():
    times = step_times(np.random.default_rng(14), steps=50, noise=0.1, runs=2)
    sides = [[estimate_median(run)] for run in times]
    calm = KnownSpread(deviation=1e-6, degrees=1e6, runs=20)
    alone, known = compare_medians(*sides), compare_medians(*sides, known=calm)
    assert known.standard_error == pytest.approx(alone.standard_error)
    # Sides of several runs tell it themselves.
    assert compare_medians(sides[0] * 2, sides[1] * 2, known=calm).history == 0


def test_runs_that_stand_by_both_sides_count_once():
    runs = [EqualRun(path=str(at), medians={"step_time": 1.0 + at}) for at in range(5)]
    together = known_spread((runs[:4], runs[1:]), "step_time")
    assert together == known_spread((runs, ()), "step_time")
    assert (together.runs, together.degrees) == (5, 4)
    # Apart each has a mean of its own.
    assert known_spread((runs[:3], runs[3:]), "step_time").degrees == 3
    assert known_spread((runs[:3], ()), "step_time") is None
    assert known_spread((runs, ()), "exposed_time") is None


def test_equal_long_runs_are_the_same():
    (change,) = changes(seed=5, pairs=1, steps=5000, correlation=0.0, noise=0.01)
    assert change.direction is Direction.SAME
    assert 0.998 < change.low < change.high < 1.002
    assert change.more_steps is None


def test_an_inconclusive_verdict_says_how_much_is_missing():
    (change,) = changes(seed=6, pairs=1, steps=60, correlation=0.5, noise=0.05)
    assert change.direction is Direction.INCONCLUSIVE
    assert 100 < change.more_steps < 6000
    # WHEN that many are recorded, it is settled
    (longer,) = changes(
        seed=6, pairs=1, steps=60 + 2 * change.more_steps, correlation=0.5, noise=0.05
    )
    assert longer.direction is not Direction.INCONCLUSIVE


def test_an_estimate_on_the_edge_of_the_band_asks_for_no_steps():
    times = step_times(np.random.default_rng(7), steps=100)[0]
    change = compare_medians([estimate_median(times)], [estimate_median(times * 1.02)])
    assert change.direction is Direction.INCONCLUSIVE
    assert change.more_steps is None


def test_several_runs_ask_for_runs():
    (change,) = changes(
        seed=11, pairs=1, steps=50, correlation=0.0, noise=0.01, runs=2, between=0.03
    )
    assert change.direction is Direction.INCONCLUSIVE
    assert change.runs == (2, 2)
    assert change.between_runs == pytest.approx(0.03, abs=0.025)
    assert change.more_steps is None
    assert change.more_runs is None or change.more_runs > 1


def test_one_run_borrows_the_spread_of_the_other_side():
    series = step_times(np.random.default_rng(9), steps=50, noise=0.001, runs=4, between=0.05)
    estimates = [estimate_median(run) for run in series]
    change = compare_medians(estimates[:3], estimates[3:])
    assert change.degrees == 2
    assert change.high / change.low > 1.2


def test_steady_runs_compare_exactly():
    steady = [estimate_median(np.full(20, value)) for value in (100e6, 110e6, 101e6)]
    slower = compare_medians([steady[0]], [steady[1]])
    assert (slower.direction, slower.low, slower.high) == (
        Direction.HIGHER,
        pytest.approx(1.1),
        pytest.approx(1.1),
    )
    assert compare_medians([steady[1]], [steady[0]]).direction is Direction.LOWER
    assert compare_medians([steady[0]], [steady[2]]).direction is Direction.SAME
    assert slower.probability_at_least(1.05) == 0
    assert slower.probability_at_least(1.2) == 1


def test_probabilities_agree_with_the_interval():
    (change,) = changes(seed=10, pairs=1, steps=200, correlation=0.5, noise=0.03, slower=0.05)
    assert change.probability_at_least(change.low) == pytest.approx(0.025, abs=1e-6)
    assert change.probability_at_most(change.high) == pytest.approx(0.025, abs=1e-6)


def test_holm_multiplies_the_smallest_most():
    assert adjusted([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert adjusted([0.5, 0.9]) == [1, 1]
    assert adjusted([]) == []
