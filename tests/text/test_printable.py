"""Texts from strangers are shown, never obeyed."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probe.text.printable import printable

ANYTHING = st.text(st.characters(exclude_categories=[]))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("gpt2-zero3", "gpt2-zero3"),
        ("modèle 語 📈", "modèle 語 📈"),
        ("\x1b[2J", "\\x1b[2J"),
        ("\x9b31m", "\\x9b31m"),
        ("one\ntwo\r\tthree\x7f", "one\\ntwo\\r\\tthree\\x7f"),
        ("\u202eabc\u2069", "\\u202eabc\\u2069"),
        ("zero\u200bwidth\ufeff", "zero\\u200bwidth\\ufeff"),
        ("line\u2028break", "line\\u2028break"),
        ("\udc80", "\\udc80"),
        ("\U000e0041", "\\U000e0041"),
        ("[red]not markup[/]", "[red]not markup[/]"),
    ],
)
def test_what_acts_is_shown_as_an_escape(text: str, shown: str) -> None:
    assert printable(text) == shown


@given(ANYTHING)
def test_nothing_is_left_that_acts_and_the_rest_is_kept(text: str) -> None:
    shown = printable(text)
    kinds = {unicodedata.category(character) for character in shown}
    assert not kinds & {"Cc", "Cf", "Cs", "Zl", "Zp"}
    assert printable(shown) == shown
    shown.encode()  # no lone surrogate is left


def test_a_long_text_says_how_much_is_left_out() -> None:
    assert printable("x" * 5000, limit=10) == "xxxxxxxxxx… (4,990 more characters)"
    assert printable("x" * 10, limit=10) == "x" * 10
