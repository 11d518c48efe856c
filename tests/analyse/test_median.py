import numpy as np
import pytest

from probe.analyse.statistics.dependence import dependence_time, lag_one
from probe.analyse.statistics.median import block_length, estimate_median
from tests.analyse.series import step_times


def test_a_steady_run_has_no_error():
    estimate = estimate_median(np.full(30, 5e6))
    assert (estimate.median, estimate.noise, estimate.standard_error) == (5e6, 0, 0)
    assert (estimate.effective_count, estimate.block) == (30, 1)


def test_too_few_values_are_no_estimate():
    assert estimate_median(np.array([5e6])) is None
    assert estimate_median(np.array([])) is None


def test_the_same_run_gives_the_same_figures():
    times = step_times(np.random.default_rng(1), steps=100, correlation=0.5)[0]
    assert estimate_median(times) == estimate_median(times.copy())


def test_noise_is_the_median_deviation_over_the_median():
    times = step_times(np.random.default_rng(2), steps=5000, noise=0.04)[0]
    times[::100] *= 10  # spikes do not count
    assert estimate_median(times).noise == pytest.approx(0.04 / 1.4826, rel=0.1)


@pytest.mark.parametrize(("correlation", "worth"), [(0.0, 1000), (0.5, 333), (0.8, 111)])
def test_dependent_steps_are_worth_fewer(correlation, worth):
    runs = step_times(np.random.default_rng(3), steps=1000, correlation=correlation, runs=20)
    assert np.median([1000 / dependence_time(run) for run in runs]) == pytest.approx(worth, rel=0.3)
    assert np.median([lag_one(run) for run in runs]) == pytest.approx(correlation, abs=0.05)


def test_a_slow_drift_under_quick_noise_is_found():
    chance = np.random.default_rng(4)
    drift = step_times(chance, steps=1000, correlation=0.97, noise=0.6, level_ns=1)[0]
    times = drift + step_times(chance, steps=1000, noise=0.8, level_ns=1)[0]
    # The lag-1 correlation of 0.35 alone would make it about 2.
    assert dependence_time(times) > 8


def test_blocks_grow_with_dependence_and_stay_short_of_the_series():
    assert block_length(200, 1.0) == 1
    assert block_length(200, 3.0) == 8
    assert block_length(200, 9.0) == 18
    assert block_length(20, 9.0) == 5
    assert block_length(3, 1.5) == 1


@pytest.mark.parametrize(("correlation", "factor"), [(0.0, 1.2533), (0.5, 1.903), (0.8, 3.164)])
def test_the_error_is_that_of_theory(correlation, factor):
    # The variance of a normal autoregression's median is σ²/n times the sum of arcsin φ^|lag|.
    runs = step_times(np.random.default_rng(6), steps=1000, correlation=correlation, runs=12)
    errors = [estimate_median(run).standard_error for run in runs]
    assert np.mean(errors) == pytest.approx(factor * 0.03 / 1000**0.5, rel=0.15)


def test_a_long_run_takes_fewer_draws_and_little_memory():
    times = step_times(np.random.default_rng(5), steps=20_000)[0]
    # The error of a normal series' median is 1.2533 σ / √n.
    assert estimate_median(times).standard_error == pytest.approx(
        1.2533 * 0.03 / 20_000**0.5, rel=0.25
    )
