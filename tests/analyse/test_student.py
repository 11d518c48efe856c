import pytest

from probe.analyse.statistics.student import probability_below, quantile

# From printed tables of the distribution.
TABLE = [
    (0.975, 1, 12.7062),
    (0.975, 2, 4.3027),
    (0.975, 10, 2.2281),
    (0.95, 5, 2.0150),
    (0.995, 30, 2.7500),
    (0.975, 1e9, 1.95996),
]


@pytest.mark.parametrize(("probability", "degrees", "value"), TABLE)
def test_quantiles_are_those_of_the_tables(probability, degrees, value):
    assert quantile(probability, degrees) == pytest.approx(value, abs=1e-4)
    assert quantile(1 - probability, degrees) == pytest.approx(-value, abs=1e-4)


@pytest.mark.parametrize("degrees", [0.7, 1, 3.5, 40, 1e5])
def test_a_quantile_and_its_probability_are_inverse(degrees):
    for probability in (0.001, 0.2, 0.5, 0.8, 0.999):
        assert probability_below(quantile(probability, degrees), degrees) == pytest.approx(
            probability, abs=1e-9
        )


def test_infinity_is_certain():
    assert probability_below(float("inf"), 3) == 1
    assert probability_below(float("-inf"), 3) == 0
