"""A column sorts by what it says: whatever `probe.units` writes is read back."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probe.text.sorting import numbers_in
from probe.units import (
    MISSING,
    format_bytes,
    format_count,
    format_duration,
    format_exact,
    format_number,
    format_percent,
    format_ratio,
    format_scale,
)

SIZES = st.floats(min_value=0, max_value=1e17) | st.integers(min_value=0, max_value=10**17)


@pytest.mark.parametrize(
    "write",
    [
        *(format_bytes, format_count, format_duration, format_number, format_percent),
        *(format_ratio, format_scale),
    ],
)
@given(sizes=st.lists(SIZES, min_size=2, max_size=8))
def test_the_order_of_values_is_the_order_of_their_texts(write, sizes) -> None:
    texts = [write(size) for size in sizes]
    read = numbers_in(texts)
    assert read is not None, texts
    pairs = sorted(zip(sizes, read, strict=True))
    values = [value for _, value in pairs]
    assert values == sorted(values), texts


@pytest.mark.parametrize("value", [0.25, -0.031, 4.0, -1e-6])
def test_signs_and_bounds(value: float) -> None:
    (read,) = numbers_in([format_percent(value)]) or ()
    assert read is not None and math.copysign(1, read) == math.copysign(1, value)
    assert read == pytest.approx(value, abs=1e-3)


def test_a_byte_among_bytes_and_a_billion_among_counts() -> None:
    assert numbers_in(["512 B", "1.20 kB"]) == [512, 1200]
    assert numbers_in(["1.20 B", "340 M", "12"]) == [1.2e9, 3.4e8, 12]
    assert numbers_in(["12 GB/s", "3 MB/s"]) == [12e9, 3e6]


def test_what_is_missing_stays_missing_and_nan_is_no_number() -> None:
    read = numbers_in([MISSING, "nan", "-inf", "2^16", format_exact(12345)])
    assert read is not None
    assert read[0] is None
    assert read[1] is not None and math.isnan(read[1])
    assert read[2:] == [-math.inf, 65536, 12345]


@pytest.mark.parametrize(
    "column", [["1", "two"], ["1 / 2"], [MISSING], [], ["1 ms", "2 MB"], ["0.3 to 0.4"], ["1e"]]
)
def test_a_column_that_is_not_all_numbers_stays_text(column: list[str]) -> None:
    assert numbers_in(column) is None
