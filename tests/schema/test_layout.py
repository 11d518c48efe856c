"""Names of files: made here, and believed only if they could have been made here."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probe.schema.layout import rank_dir, rank_of, slug, step_of_trace, supports, trace_name


@given(st.integers(0, 10**9 - 1))
def test_a_rank_and_its_folder(rank: int) -> None:
    assert rank_of(rank_dir(rank)) == rank


@given(st.text() | st.from_regex(r"rank_\d{1,12}"))
def test_no_two_names_are_one_rank(name: str) -> None:
    rank = rank_of(name)
    assert rank is None or rank_dir(rank) == name


@pytest.mark.parametrize(
    "name", ["rank_0", "rank_000001", "rank_00001\n", "rank_-0001", "rank_٠٠٠٠١", "../rank_00001"]
)
def test_other_names_are_no_rank(name: str) -> None:
    assert rank_of(name) is None


@given(st.integers(0, 10**12 - 1))
def test_a_trace_and_its_step(step: int) -> None:
    assert step_of_trace(trace_name(step)) == step


@pytest.mark.parametrize("name", ["trace_.json", "trace_1.exe", "trace_-1.json", "trace_1.json\n"])
def test_other_names_are_no_trace(name: str) -> None:
    assert step_of_trace(name) is None


@given(st.text())
def test_a_slug_is_one_harmless_part_of_a_path(text: str) -> None:
    assert re.fullmatch(r"([A-Za-z0-9_][A-Za-z0-9._-]{0,47})?", slug(text)), slug(text)


@pytest.mark.parametrize(
    ("version", "supported"),
    [("1.0", True), ("1.99", True), ("1", True), ("2.0", False), ("10.0", False), ("", False)],
)
def test_the_same_major_version_is_read(version: str, supported: bool) -> None:
    assert supports(version) is supported
