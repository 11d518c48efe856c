"""The processes of a run: started in a group of their own, their output passed on, their end seen.

The group gets signals as a whole. The first interrupt asks the ranks to end, the second insists.
"""

import json
import os
import signal
import subprocess
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from probe.schema.vocabulary import RunStatus

GRACE_S = 15.0
"""How long ranks may take to end after they were asked to."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How the processes ended."""

    status: RunStatus
    exit_codes: dict[int, int]
    """Of the ranks that did not end well; -15 are those stopped because another had failed."""
    first: int | None
    """The rank that failed first."""
    code: int
    """The exit code that `probe run` gives back."""


@dataclass(frozen=True, kw_only=True)
class Finished:
    """A run that is over."""

    outcome: Outcome
    run_dir: Path | None
    """None if nothing was recorded."""
    began_here: bool = True
    """False where this machine joined a run that another one speaks for."""
    wall_ns: int


class RankProcesses:
    """The running group."""

    def __init__(
        self,
        command: Callable[[Path], Sequence[str]],
        environment: Mapping[str, str],
        *,
        on_output: Callable[[bytes, bool], None],
    ) -> None:
        """Start; `on_output` gets what ranks print, and whether it went to standard error."""
        descriptor, name = tempfile.mkstemp(prefix="probe-report-")
        os.close(descriptor)
        self._report = Path(name)
        self._interrupts = 0
        self._process = subprocess.Popen(
            command(self._report),
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        assert self._process.stdout is not None and self._process.stderr is not None
        self._pumps = [
            threading.Thread(target=_pump, args=(pipe, is_error, on_output), daemon=True)
            for pipe, is_error in [(self._process.stdout, False), (self._process.stderr, True)]
        ]
        for pump in self._pumps:
            pump.start()

    def wait(self, timeout_s: float) -> bool:
        """Wait a while; True when all processes have ended."""
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return False
        return True

    def interrupt(self) -> None:
        """Ask the ranks to end; asked again, or ignored for too long, end them."""
        self._interrupts += 1
        if self._interrupts == 1:
            self._signal(signal.SIGTERM)
            if self.wait(GRACE_S):
                return
        self._signal(signal.SIGKILL)
        self._process.wait()

    def end(self) -> None:
        """End ranks that will not end by themselves; the run counts as failed."""
        self._signal(signal.SIGTERM)
        if not self.wait(GRACE_S):
            self._signal(signal.SIGKILL)
            self._process.wait()

    def outcome(self) -> Outcome:
        """How it went; the processes have ended."""
        for pump in self._pumps:
            pump.join(timeout=5)
        code = self._process.wait()
        exit_codes, first = self._reported()
        self._report.unlink(missing_ok=True)
        if first is not None:
            code = exit_codes[first]
        if self._interrupts:
            status, code = RunStatus.INTERRUPTED, 130
        elif code < 0:
            status, code = RunStatus.KILLED, 128 - code
        else:
            status = RunStatus.FAILED if code else RunStatus.FINISHED
        return Outcome(status=status, exit_codes=exit_codes, first=first, code=code)

    def _reported(self) -> tuple[dict[int, int], int | None]:
        """Exit codes of the ranks that did not end well, and which of them was the first."""
        try:
            report = json.loads(self._report.read_text())
        except (OSError, ValueError):
            return {}, None  # The agent itself was killed; its own exit code says so.
        codes = {int(rank): code for rank, code in report["exit_codes"].items()}
        return codes, report["first"]

    def _signal(self, number: signal.Signals) -> None:
        try:
            if number is signal.SIGKILL:
                os.killpg(self._process.pid, number)
            else:
                self._process.send_signal(number)
        except ProcessLookupError:
            pass


def _pump(pipe: BinaryIO, is_error: bool, on_output: Callable[[bytes, bool], None]) -> None:
    while chunk := os.read(pipe.fileno(), 1 << 16):
        on_output(chunk, is_error)
    pipe.close()
