"""One value at a time, and the JSON that people write them in."""

import contextlib
import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.config.jsonc import JsonError, parse_json, plain_json
from engine.config.key import Key, Kind
from engine.config.values import WrongValueError, parsed, shown
from probe.schema.vocabulary import Tier


def key(kind: Kind, **bounds) -> Key:
    return Key(path="it", kind=kind, lands="", **bounds)


@pytest.mark.parametrize(
    ("kind", "raw", "value"),
    [
        (Kind.BOOL, True, True),
        (Kind.BOOL, "true", True),
        (Kind.BOOL, "False", False),
        (Kind.BOOL, 0, False),
        (Kind.COUNT, 2e8, 200_000_000),
        (Kind.COUNT, "5e7", 50_000_000),
        (Kind.COUNT, "12", 12),
        (Kind.NUMBER, "1e-3", 0.001),
        (Kind.NUMBER, 3, 3.0),
        (Kind.NUMBERS, [1, 2.5], [1.0, 2.5]),
        (Kind.PAIR, [0.9, 0.999], (0.9, 0.999)),
        (Kind.DTYPE, "bfloat16", "bf16"),
        (Kind.DTYPE, "torch.float16", "fp16"),
        (Kind.TIER, "cpu", Tier.HOST),
        (Kind.TIER, "NVMe", Tier.DISK),
        (Kind.TEXT, "/scratch", "/scratch"),
    ],
)
def test_values_as_people_write_them(kind: Kind, raw, value) -> None:
    read = parsed(key(kind), raw)
    assert (read, type(read)) == (value, type(value))


@pytest.mark.parametrize(
    ("kind", "raw"),
    [
        (Kind.BOOL, "yes"),
        (Kind.BOOL, 2),
        (Kind.BOOL, []),
        (Kind.COUNT, True),
        (Kind.COUNT, 1.5),
        (Kind.COUNT, math.nan),
        (Kind.COUNT, math.inf),
        (Kind.COUNT, "many"),
        (Kind.COUNT, {}),
        (Kind.NUMBER, False),
        (Kind.NUMBER, "nan"),
        (Kind.NUMBER, 10**400),
        (Kind.NUMBERS, []),
        (Kind.NUMBERS, [1, "x"]),
        (Kind.PAIR, [0.9]),
        (Kind.PAIR, 0.9),
        (Kind.DTYPE, "fp8"),
        (Kind.TIER, "gpu"),
        (Kind.TIER, 1),
        (Kind.TEXT, ""),
        (Kind.TEXT, 7),
    ],
)
def test_values_of_the_wrong_kind_are_refused(kind: Kind, raw) -> None:
    with pytest.raises(WrongValueError, match="it must be"):
        parsed(key(kind), raw)


@pytest.mark.parametrize(
    ("bounded", "raw", "words"),
    [
        (key(Kind.COUNT, least=1), 0, "it must be a whole number at least 1, not 0"),
        (key(Kind.COUNT, least=0, most=3), 4, "a whole number at least 0 and at most 3, not 4"),
        (key(Kind.NUMBER, above=0), -0.5, "it must be a number above 0, not -0.5"),
        (key(Kind.PAIR, below=1), [0.5, 1.0], "a pair of numbers below 1, not [0.5, 1.0]"),
        (key(Kind.CHOICE, choices=("stop", "clamp")), "go", 'it must be "stop" or "clamp", not "'),
        (key(Kind.BOOL), math.nan, "it must be true or false, not NaN"),
        (key(Kind.NUMBER, choices=("dynamic",)), "static", 'a number or "dynamic", not "static"'),
    ],
)
def test_the_sentence_says_what_it_must_be_and_what_it_is(bounded, raw, words) -> None:
    with pytest.raises(WrongValueError) as error:
        parsed(bounded, raw)
    assert words in str(error.value)


def test_infinity_means_never_where_that_is_allowed() -> None:
    assert parsed(key(Kind.COUNT, endless=True), math.inf) is None


def test_a_long_value_is_cut_and_a_circular_one_is_survived() -> None:
    circle: list = []
    circle.append(circle)
    assert shown("x" * 100) == '"' + "x" * 58 + "…"
    assert shown(circle) == "a list that cannot be shown"
    assert shown(10**5000) == "a int that cannot be shown"


def test_comments_and_trailing_commas_are_read_over() -> None:
    text = """{ // to the end of the line
      "a": 1, # this too
      /* and
         this */ "b": ["x", 2,],
      "c": "no // comment, # nor /* this */ in a string",
      "d": "a quote \\" // inside",
    }"""
    value, repeated = parse_json(text)
    assert value == {
        "a": 1,
        "b": ["x", 2],
        "c": "no // comment, # nor /* this */ in a string",
        "d": 'a quote " // inside',
    }
    assert repeated == []


def test_faults_keep_their_line_behind_a_comment() -> None:
    with pytest.raises(JsonError, match="line 3, column 9"):
        parse_json('{ /* two\n lines */\n  "a":  }')


def test_a_comment_that_never_ends_is_named() -> None:
    with pytest.raises(JsonError, match=r"line 2: the comment opened by /\* is never closed"):
        parse_json('{\n "a": 1 /* and so on }')


def test_keys_given_twice_are_told() -> None:
    assert parse_json('{"a": 1, "b": {"c": 1, "c": 2}, "a": 3}') == (
        {"a": 3, "b": {"c": 2}},
        ["c", "a"],
    )


def test_json_nested_without_end_is_a_fault_and_no_crash() -> None:
    with pytest.raises(JsonError):
        parse_json("[" * 100_000)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@settings(deadline=None)
@given(value=json_values)
def test_plain_json_is_left_as_it_is(value) -> None:
    text = json.dumps(value)
    assert plain_json(text) == text
    assert parse_json(text) == (value, [])


@settings(deadline=None)
@given(text=st.text(alphabet='{}[]",:/*#\\ \n1a'))
def test_any_text_is_json_or_a_json_error(text: str) -> None:
    with contextlib.suppress(JsonError):
        parse_json(text)
