"""Texts in Markdown that stay texts, and ranges of steps as people write them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probe.analyse.series.within import StepRange, parse_step_range
from probe.errors import UsageError
from probe.text.inert import inert


@given(st.text())
def test_no_sign_of_markdown_is_left_bare(text: str) -> None:
    shown = inert(text)
    bare = shown.replace("\\\\", "")
    for place, sign in enumerate(bare):
        if sign in "<>$`*_[]#~|!&":
            assert place, shown
            assert bare[place - 1] == "\\", shown


@pytest.mark.parametrize("text", [":smile:", ":red[x]", ":material/home:", ":+1:"])
def test_a_colon_begins_nothing(text: str) -> None:
    assert ":\u2060" in inert(text)


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [("120-180", 120, 180), (" 7 ", 7, 7), ("180 – 120", 120, 180), ("0-0", 0, 0)],
)
def test_a_range_is_read_as_it_is_written(text: str, first: int, last: int) -> None:
    found = parse_step_range(text)
    assert found == StepRange(first=first, last=last)
    assert parse_step_range(str(found)) == found


@pytest.mark.parametrize("text", ["ten", "-5", "5-", "1-2-3", "1.5", "٣", "9" * 30])
def test_what_is_no_range_is_told(text: str) -> None:
    with pytest.raises(UsageError):
        parse_step_range(text)
