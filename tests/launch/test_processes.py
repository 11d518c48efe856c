"""The group of processes: output passed on whole, every way to end told apart."""

import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from probe.launch.processes import RankProcesses
from probe.schema.vocabulary import RunStatus

DEADLINE_S = 60.0


class Heard:
    """What came out."""

    def __init__(self) -> None:
        self.out = bytearray()
        self.err = bytearray()
        self.came = threading.Event()

    def __call__(self, chunk: bytes, is_error: bool) -> None:
        (self.err if is_error else self.out).extend(chunk)
        self.came.set()


def agent(code: str) -> Callable[[Path], list[str]]:
    """A stand-in for the agent: a program that knows REPORT."""
    return lambda report: [sys.executable, "-c", f"REPORT = {str(report)!r}\n{code}"]


def ended(code: str, heard: Heard | None = None) -> RankProcesses:
    processes = RankProcesses(agent(code), {}, on_output=heard or Heard())
    assert processes.wait(DEADLINE_S)
    return processes


def test_a_good_end() -> None:
    outcome = ended("").outcome()
    assert (outcome.status, outcome.code, outcome.exit_codes) == (RunStatus.FINISHED, 0, {})


@pytest.mark.parametrize(
    ("codes", "first", "status", "code"),
    [
        ({"1": 3, "0": -15}, 1, RunStatus.FAILED, 3),
        ({"0": -15, "1": -9}, 1, RunStatus.KILLED, 137),
        ({"0": 1, "1": 1}, 0, RunStatus.FAILED, 1),
    ],
)
def test_the_first_rank_that_failed_decides(
    codes: dict[str, int], first: int, status: RunStatus, code: int
) -> None:
    report = {"exit_codes": codes, "first": first, "signal": 0}
    outcome = ended(
        f"import json, sys; open(REPORT, 'w').write(json.dumps({report!r})); sys.exit(1)"
    ).outcome()
    assert (outcome.status, outcome.code, outcome.first) == (status, code, first)
    assert outcome.exit_codes == {int(rank): value for rank, value in codes.items()}


def test_an_agent_that_is_killed_itself() -> None:
    outcome = ended("import os; os.kill(os.getpid(), 9)").outcome()
    assert (outcome.status, outcome.code, outcome.exit_codes) == (RunStatus.KILLED, 137, {})


def test_much_output_goes_through_whole_and_in_order() -> None:
    heard = Heard()
    lines = "for i in range(200_000): print(i)\nprint('end', file=sys.stderr)"
    ended(f"import sys\n{lines}", heard).outcome()
    assert heard.out == b"".join(b"%d\n" % number for number in range(200_000))
    assert heard.err == b"end\n"


def test_an_interrupt_asks_and_the_second_one_insists() -> None:
    heard = Heard()
    stubborn = (
        "import os, signal, time\n"
        # Not print: the signal may come while the print below is still under way.
        "signal.signal(signal.SIGTERM, lambda *_: os.write(1, b'no'))\n"
        "print('ready', flush=True)\n"
        "while True: time.sleep(0.05)"
    )
    processes = RankProcesses(agent(stubborn), {}, on_output=heard)
    assert heard.came.wait(DEADLINE_S)
    first = threading.Thread(target=processes.interrupt)
    first.start()
    deadline = time.monotonic() + DEADLINE_S
    while b"no" not in heard.out and time.monotonic() < deadline:
        heard.came.clear()
        heard.came.wait(0.2)
    processes.interrupt()
    first.join(DEADLINE_S)
    outcome = processes.outcome()
    assert (outcome.status, outcome.code) == (RunStatus.INTERRUPTED, 130)


def test_the_report_file_goes() -> None:
    found: list[Path] = []

    def command(report: Path) -> list[str]:
        found.append(report)
        return [sys.executable, "-c", ""]

    processes = RankProcesses(command, {}, on_output=Heard())
    processes.wait(DEADLINE_S)
    processes.outcome()
    assert not found[0].exists()
