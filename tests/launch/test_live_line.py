"""The line under the output: it never mixes with what the script prints."""

import io
import os
import pty
from collections.abc import Iterator
from typing import TextIO

import pytest

from probe.text.live_line import FIRST_REPORT_S, LiveLine, progress_line

ERASE = b"\r\x1b[2K"


@pytest.fixture
def terminal_pair() -> Iterator[tuple[int, TextIO]]:
    """A terminal that we can read."""
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "w") as terminal:
        yield ours, terminal
    os.close(ours)


def expect(ours: int, wanted: bytes) -> None:
    """The next that the terminal got is this; it may come in parts."""
    seen = b""
    while len(seen) < len(wanted):
        seen += os.read(ours, len(wanted) - len(seen))
    assert seen == wanted


def test_output_passes_through_and_the_line_stands_below_it(terminal_pair) -> None:
    ours, terminal = terminal_pair
    out = io.BytesIO()
    line = LiveLine(out=out, err=out, terminal=terminal, columns=80)
    line.show("step 1")
    expect(ours, b"step 1")
    line.pass_on(b"hello\n", False)
    assert out.getvalue() == b"hello\n"
    expect(ours, ERASE + b"step 1")
    line.end()
    expect(ours, ERASE)


def test_an_unfinished_line_of_the_script_is_left_alone(terminal_pair) -> None:
    ours, terminal = terminal_pair
    out = io.BytesIO()
    line = LiveLine(out=out, err=out, terminal=terminal, columns=80)
    line.show("step 1")
    line.pass_on(b"loading \r 50 %", False)
    line.show("step 2")
    expect(ours, b"step 1" + ERASE)
    line.pass_on(b" done\n", True)
    expect(ours, b"step 2")
    assert out.getvalue() == b"loading \r 50 % done\n"


def test_the_line_is_never_longer_than_the_terminal(terminal_pair) -> None:
    ours, terminal = terminal_pair
    LiveLine(out=io.BytesIO(), err=io.BytesIO(), terminal=terminal, columns=20).show("x" * 50)
    expect(ours, b"x" * 19)


def test_in_a_pipe_a_line_comes_now_and_then(monkeypatch) -> None:
    now = [100.0]
    monkeypatch.setattr("probe.text.live_line.time.monotonic", lambda: now[0])
    report = io.StringIO()
    line = LiveLine(out=io.BytesIO(), err=io.BytesIO(), terminal=report, columns=80)
    for second in range(120):
        now[0] = 100.0 + second
        line.show(f"second {second}")
    # After 10 s, then after pauses of 20, 40 and at most 60 s.
    first = int(FIRST_REPORT_S)
    assert report.getvalue() == "".join(
        f"second {second}\n" for second in (first, first + 20, first + 60)
    )


def test_what_the_line_says() -> None:
    nothing = progress_line(
        steps=0,
        expected_steps=None,
        step_ns=None,
        loss=None,
        loss_scale=None,
        skipped=0,
        peak_bytes=None,
        remaining_ns=None,
    )
    assert nothing == "no step yet"
    everything = progress_line(
        steps=120,
        expected_steps=200,
        step_ns=83e6,
        loss=2.3456,
        loss_scale=65536.0,
        skipped=2,
        peak_bytes=1_200_000_000,
        remaining_ns=6.64e9,
    )
    assert everything == (
        "step 120/200 · 83.0 ms/step · loss 2.346 · scale 65,536 · 2 skipped · peak 1.20 GB"
        " · 6.64 s left"
    )
