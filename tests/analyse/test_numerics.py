import pytest

from probe.analyse.precision.numerics import gradient_range, lost_updates
from probe.analyse.precision.overflows import overflow_origins
from probe.schema.rows import NumericsRow, OverflowRow
from probe.schema.tables import NUMERICS, OVERFLOW
from probe.schema.vocabulary import NonFinite, TensorRole
from tests.analyse.hand_built import table_of


def sample(step=0, parameter="a", **other):
    other = {"role": TensorRole.GRADIENT, "dtype": "fp16", "tensor_elements": 100, **other}
    return NumericsRow(step=step, parameter=parameter, **other)


def sampled(*rows, rank=0):
    return table_of(NUMERICS, {rank: list(rows)})


def offender(step, name="a", *, first=True, kind=NonFinite.INF):
    return OverflowRow(step=step, role=TensorRole.GRADIENT, kind=kind, parameter=name, first=first)


def test_shares_are_of_the_elements_that_hold_a_proper_number():
    found = gradient_range(
        sampled(
            sample(0, "a", zero_elements=40, nonfinite_elements=10, underflow_elements=5),
            sample(0, "b", underflow_elements=20, subnormal_elements=30),
            sample(9, "b", subnormal_elements=100),
        )
    )
    assert found.together.elements == 250
    assert found.together.underflow_share == 0.1
    assert found.together.subnormal_share == pytest.approx(130 / 250)
    assert found.by_step[0].underflow_share == pytest.approx(25 / 150)
    assert found.by_step[9].underflow_share == 0
    assert list(found.by_parameter) == ["a", "b"]
    assert found.by_parameter["b"].underflow_share == 0.1


def test_headroom_is_the_least_of_the_samples_in_powers_of_two():
    found = gradient_range(
        sampled(
            sample(0, largest_magnitude=65504 / 8, loss_scale=1024.0),
            sample(9, largest_magnitude=65504 / 2, loss_scale=256.0),
        )
    )
    assert found.together.headroom_powers == pytest.approx(1)
    assert found.by_step[0].headroom_powers == pytest.approx(3)
    assert found.safe_scale_power == 9  # 256 doubled once; 1024 could be doubled three times


def test_without_magnitudes_or_gradients_nothing_is_claimed():
    assert gradient_range(sampled()) is None
    assert gradient_range(sampled(sample(role=TensorRole.WEIGHT))) is None
    empty = gradient_range(sampled(sample(zero_elements=100, largest_magnitude=0.0)))
    assert empty.together.underflow_share is None
    assert empty.together.headroom_powers is None
    assert empty.safe_scale_power is None


def test_lost_updates_are_counted_where_they_were_looked_for():
    table = sampled(
        sample(parameter="a", role=TensorRole.WEIGHT, lost_update_elements=30),
        sample(parameter="b", role=TensorRole.WEIGHT, lost_update_elements=90),
        sample(parameter="b"),
    )
    found = lost_updates(table)
    assert found.share == 0.6
    assert list(found.by_parameter.items()) == [("b", 0.9), ("a", 0.3)]
    assert lost_updates(sampled(sample())) is None


def test_the_tensor_that_overflows_begin_in_comes_first():
    table = table_of(
        OVERFLOW,
        {
            0: [offender(1), offender(1, "b", first=False), offender(5, "c")],
            1: [offender(1, kind=NonFinite.NAN), offender(5), offender(7)],
        },
    )
    first, second = overflow_origins(table)
    assert (first.name, first.steps, first.share) == ("a", (1, 5, 7), 1.0)
    assert (first.kinds, first.ranks) == (("inf", "nan"), (0, 1))
    assert (second.name, second.share) == ("c", pytest.approx(1 / 3))


def test_a_run_without_overflows_has_no_origins():
    assert overflow_origins(table_of(OVERFLOW, {})) == ()
