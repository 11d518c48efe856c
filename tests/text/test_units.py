"""Numbers for people: fitting units, few characters, never out of order."""

import math
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probe import units

SIZES = {"B": 1e0, "kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12, "PB": 1e15, "EB": 1e18}
SCALES = {"": 1e0, "k": 1e3, "M": 1e6, "B": 1e9, "T": 1e12, "Q": 1e15}
TIMES = {
    "ns": 1.0,
    "µs": 1e3,
    "ms": 1e6,
    "s": 1e9,
    "min": 60e9,
    "h": 3600e9,
    "d": 86400e9,
    "y": 365.25 * 86400e9,
}
UP_TO_INT64 = st.integers(0, 2**63 - 1) | st.integers(0, 64).map(lambda power: 2**power // 2)
WRITTEN = [
    (units.format_bytes, SIZES),
    (units.format_duration, TIMES),
    (units.format_count, SCALES),
]


def value_of(text: str, scale: dict[str, float]) -> float:
    digits, _, unit = text.partition(" ")
    return float(digits.replace(",", "")) * scale[unit]


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.00 kB"),
        (999_499, "999 kB"),
        (999_500, "1.00 MB"),
        (14e9, "14.0 GB"),
        (26.25e9, "26.2 GB"),
        (112e9, "112 GB"),
        (2**63 - 1, "9.22 EB"),
        (-5_000_000, "-5.00 MB"),
        (math.nan, "nan"),
        (-math.inf, "-inf"),
        (None, "–"),
    ],
)
def test_bytes_are_decimal(amount: float | None, text: str) -> None:
    assert units.format_bytes(amount) == text


@pytest.mark.parametrize(
    ("amount_ns", "text"),
    [
        (0, "0 ns"),
        (850, "850 ns"),
        (12_340, "12.3 µs"),
        (151_000_000, "151 ms"),
        (999_400_000, "999 ms"),
        (999_600_000, "1.00 s"),
        (59_940_000_000, "59.9 s"),
        (59_960_000_000, "1.00 min"),
        (90_000_000_000, "1.50 min"),
        (86_300_000_000_000, "1.00 d"),
        (2**63 - 1, "292 y"),
    ],
)
def test_a_duration_changes_its_unit_in_time(amount_ns: int, text: str) -> None:
    assert units.format_duration(amount_ns) == text


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0"),
        (9_999, "9,999"),
        (10_000, "10.0 k"),
        (124_439_808, "124 M"),
        (20_100_000, "20.1 M"),
        (7e9, "7.00 B"),
        (1500.5, "1.50 k"),
        (None, "–"),
    ],
)
def test_counts_are_exact_while_they_are_short(number: float | None, text: str) -> None:
    assert units.format_count(number) == text


@pytest.mark.parametrize(("format_amount", "scale"), WRITTEN)
@given(first=UP_TO_INT64, second=UP_TO_INT64)
def test_more_is_never_written_as_less(format_amount, scale, first: int, second: int) -> None:
    low, high = sorted((first, second))
    assert value_of(format_amount(low), scale) <= value_of(format_amount(high), scale)


@pytest.mark.parametrize(("format_amount", "scale"), WRITTEN)
@given(amount=UP_TO_INT64)
def test_what_is_written_is_short_and_near(format_amount, scale, amount: int) -> None:
    text = format_amount(amount)
    assert len(text) <= 8
    assert value_of(text, scale) == pytest.approx(amount, rel=0.0051)


@given(amount=st.integers(1, 2**63 - 1))
def test_no_duration_could_have_a_larger_unit(amount: int) -> None:
    digits, unit = units.format_duration(amount).split()
    sizes = list(TIMES.values())
    place = list(TIMES).index(unit)
    if place + 1 < len(sizes):
        assert float(digits.replace(",", "")) * sizes[place] < sizes[place + 1]


@given(st.floats(-1e300, 1e300) | st.sampled_from([math.nan, math.inf, -math.inf]))
def test_every_float_can_be_written(value: float) -> None:
    for format_value in (
        units.format_bytes,
        units.format_duration,
        units.format_count,
        units.format_number,
        units.format_percent,
        units.format_ratio,
    ):
        text = format_value(value)
        assert 0 < len(text) <= 12
        assert ("nan" in text) == math.isnan(value)
        assert ("inf" in text) == math.isinf(value)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.1234567, "0.1235"),
        (65536.0, "65,536"),
        (3.0**21, "1.0e+10"),
        (1.5e-7, "1.5e-07"),
        (math.nan, "nan"),
        (None, "–"),
        (2.0**20, "1,048,576"),
        (2.0**26, "67,108,864"),
        (2.0**27, "2^27"),
        (2.0**127, "2^127"),
        (2.0**20 + 1, "1.0e+06"),
        (-(2.0**20), "-1.0e+06"),
    ],
)
def test_plain_numbers(value: float | None, text: str) -> None:
    assert units.format_number(value) == text


@pytest.mark.parametrize(
    ("fraction", "text"),
    [
        (1.0, "100.0 %"),
        (0.0132, "1.3 %"),
        (0.0, "0.0 %"),
        (0.0001, "<0.1 %"),
        (-0.013, "-1.3 %"),
        (12.0, "1200 %"),
        (None, "–"),
    ],
)
def test_percent(fraction: float | None, text: str) -> None:
    assert units.format_percent(fraction) == text


@pytest.mark.parametrize(
    ("ratio", "text"),
    [
        (1.44, "1.44×"),
        (3.5, "3.50×"),
        (15.24, "15.2×"),
        (999.6, "1,000×"),
        (2.0**20, "1.05 M×"),
        (None, "–"),
    ],
)
def test_ratio(ratio: float | None, text: str) -> None:
    assert units.format_ratio(ratio) == text


NOW_NS = 1_800_000_000 * 10**9
SECOND_NS = 10**9


@pytest.mark.parametrize(
    ("age_s", "age", "ago"),
    [
        (0, "now", "now"),
        (-4, "now", "now"),
        (12, "12 s", "12 s ago"),
        (119, "1 min", "1 min ago"),
        (3 * 60, "3 min", "3 min ago"),
        (5 * 3600, "5 h", "5 h ago"),
        (400 * 86400, "1 y", "1 y ago"),
        (-180, "+3 min", "in 3 min"),
    ],
)
def test_age(age_s: int, age: str, ago: str) -> None:
    then_ns = NOW_NS - age_s * SECOND_NS
    assert units.format_age(then_ns, NOW_NS) == age
    assert units.format_ago(then_ns, NOW_NS) == ago


def test_a_missing_moment_has_no_age() -> None:
    assert units.format_age(None, NOW_NS) == units.format_ago(None, NOW_NS) == "–"


def test_a_moment_is_written_in_local_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    try:
        assert units.format_moment(1_700_000_000_000_000_000) == "2023-11-14 17:13:20"
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize(
    ("scale", "text"),
    [
        (1.0, "1"),
        (1024.0, "1,024"),
        (2048.0, "2^11"),
        (65536.0, "2^16"),
        (65537.0, "65,537"),
        (0.5, "0.5"),
        (math.inf, "inf"),
        (None, "–"),
    ],
)
def test_loss_scales(scale: float | None, text: str) -> None:
    assert units.format_scale(scale) == text
