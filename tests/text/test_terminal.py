"""One console for all: plain in a pipe, coloured on a terminal, obedient to the environment."""

import io
import sys

import pytest
from rich.text import Text

from probe.text.aligned import align
from probe.text.terminal import make_console, print_lines, print_plainly, row_columns

RED = "\x1b[31m"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def terminal_in_place_of_stdout(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    stream = Terminal()
    monkeypatch.setattr(sys, "stdout", stream)
    monkeypatch.setenv("TERM", "xterm-256color")
    return stream


def test_a_terminal_gets_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = terminal_in_place_of_stdout(monkeypatch)
    print_lines(make_console(), [Text("bad", style="red")])
    assert RED in terminal.getvalue()


def test_no_color_takes_them_away(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = terminal_in_place_of_stdout(monkeypatch)
    monkeypatch.setenv("NO_COLOR", "1")
    print_lines(make_console(), [Text("bad", style="red")])
    assert terminal.getvalue() == "bad\n"


def test_a_pipe_gets_none_unless_forced(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    print_lines(make_console(), [Text("bad", style="red")])
    assert capsys.readouterr().out == "bad\n"
    monkeypatch.setenv("FORCE_COLOR", "1")
    print_lines(make_console(), [Text("bad", style="red")])
    assert RED in capsys.readouterr().out


@pytest.mark.parametrize(
    ("asked", "width"), [("120", 120), ("30", 72), ("99999999", 10_000), ("80", 80)]
)
def test_columns_says_how_wide(asked: str, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", asked)
    assert make_console().width == width


@pytest.mark.parametrize("nonsense", ["", "wide", "0", "-5"])
def test_a_senseless_width_is_no_width(nonsense: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", nonsense)
    assert make_console().width >= 72


def test_a_row_in_a_pipe_is_one_line_however_long(capsys: pytest.CaptureFixture[str]) -> None:
    console = make_console()
    assert row_columns(console) == 10_000
    print_lines(console, align([("name", "1,234,567"), ("x" * 300, "7")], right=(1,)))
    assert capsys.readouterr().out.count("\n") == 2


def test_prose_in_a_pipe_wraps_at_80_and_carries_no_trailing_blanks(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_plainly(make_console(), Text("word " * 40))
    lines = capsys.readouterr().out.split("\n")
    assert max(map(len, lines)) <= 80
    assert not [line for line in lines if line != line.rstrip()]


def test_markup_and_emoji_codes_are_text(capsys: pytest.CaptureFixture[str]) -> None:
    print_plainly(make_console(), "[red]:warning: 1.5 'quoted'[/red]")
    assert capsys.readouterr().out == "[red]:warning: 1.5 'quoted'[/red]\n"


def test_wide_characters_keep_the_columns_straight() -> None:
    lines = align([("語", "1"), ("abc", "22")], right=(1,))
    assert [line.plain for line in lines] == ["語    1", "abc  22"]
