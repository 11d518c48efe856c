"""One line that says where a run stands, below whatever the script prints.

The script's bytes go through untouched, progress bars and colours included; the line is taken away
before them and put back after the next whole line. In a pipe there is no line to redraw, so one is
printed now and then instead, on standard error.
"""

import sys
import threading
import time
from typing import BinaryIO, TextIO

from probe.units import format_bytes, format_count, format_duration, format_number

FIRST_REPORT_S = 10.0
"""In a pipe: when the first line comes; each next one takes twice as long, up to a minute."""
LONGEST_SILENCE_S = 60.0
_ERASE = "\r\x1b[2K"


class LiveLine:
    """Passes the output of the ranks on and keeps the line under it."""

    def __init__(
        self,
        *,
        out: BinaryIO | None = None,
        err: BinaryIO | None = None,
        terminal: TextIO | None = None,
        columns: int = 80,
    ) -> None:
        self._out = out or sys.stdout.buffer
        self._err = err or sys.stderr.buffer
        self._terminal = terminal or sys.stderr
        self._redraws = self._terminal.isatty()
        self._columns = columns
        self._lock = threading.Lock()
        self._line = ""
        self._line_stands = False
        self._at_line_start = True
        self._next_report_s = time.monotonic() + FIRST_REPORT_S
        self._pause_s = FIRST_REPORT_S

    def pass_on(self, chunk: bytes, is_error: bool) -> None:
        """Write what a rank printed."""
        with self._lock:
            self._take_away()
            stream = self._err if is_error else self._out
            stream.write(chunk)
            stream.flush()
            self._at_line_start = chunk.endswith(b"\n")
            self._put_back()

    def show(self, line: str) -> None:
        """The state of the run is now this."""
        with self._lock:
            self._line = line[: self._columns - 1]
            if self._redraws:
                self._take_away()
                self._put_back()
            elif line and time.monotonic() >= self._next_report_s:
                self._terminal.write(line + "\n")
                self._terminal.flush()
                self._pause_s = min(2 * self._pause_s, LONGEST_SILENCE_S)
                self._next_report_s = time.monotonic() + self._pause_s

    def end(self) -> None:
        """The run is over; the line goes."""
        with self._lock:
            self._take_away()
            self._line = ""

    def _take_away(self) -> None:
        if self._line_stands:
            self._terminal.write(_ERASE)
            self._terminal.flush()
            self._line_stands = False

    def _put_back(self) -> None:
        if self._redraws and self._line and self._at_line_start:
            self._terminal.write(self._line)
            self._terminal.flush()
            self._line_stands = True


def progress_line(
    *,
    steps: int,
    expected_steps: int | None,
    step_ns: float | None,
    loss: float | None,
    loss_scale: float | None,
    skipped: int,
    peak_bytes: int | None,
    remaining_ns: float | None,
) -> str:
    """Where a run stands, in one line."""
    if not steps:
        return "no step yet"
    of = f"/{format_count(expected_steps)}" if expected_steps else ""
    parts = [f"step {format_count(steps)}{of}"]
    if step_ns is not None:
        parts.append(f"{format_duration(step_ns)}/step")
    if loss is not None:
        parts.append(f"loss {format_number(loss)}")
    if loss_scale not in (None, 1.0):
        parts.append(f"scale {format_number(loss_scale)}")
    if skipped:
        parts.append(f"{format_count(skipped)} skipped")
    if peak_bytes is not None:
        parts.append(f"peak {format_bytes(peak_bytes)}")
    if remaining_ns is not None:
        parts.append(f"{format_duration(remaining_ns)} left")
    return " · ".join(parts)
