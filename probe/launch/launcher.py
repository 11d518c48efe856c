"""One run from the first process to the last word on it.

Whatever happens to the ranks, the data stays and is said how it ended; whatever happens to the
disk, the ranks go on. What is written down meanwhile depends on whether this machine began the run
(`own_run`) or joined it (`joined_run`).
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from probe.launch.joined_run import JoinedRun
from probe.launch.own_run import OwnRun
from probe.launch.processes import Finished, Outcome, RankProcesses
from probe.launch.progress import Progress
from probe.launch.request import RunRequest, command_of, environment_of

LOOK_EVERY_S = 0.5


class Record(Protocol):
    """What a launcher writes down while ranks run."""

    @property
    def environment(self) -> dict[str, str]:
        """Variables of the ranks."""

    @property
    def path(self) -> Path | None:
        """The run directory, as far as it is known."""

    @property
    def began_here(self) -> bool:
        """Whether this machine began the run, and speaks for it."""

    def add(self, chunk: bytes) -> None:
        """Keep what the ranks printed."""

    def look(self, processes: RankProcesses, say: Callable[[bytes, bool], None]) -> Progress | None:
        """Where the run stands; tells and notes what is out of order."""

    def close(self, outcome: Outcome, say: Callable[[bytes, bool], None]) -> None:
        """Write down how it ended."""


def launch(
    request: RunRequest,
    *,
    invocation: list[str],
    on_output: Callable[[bytes, bool], None],
    on_progress: Callable[[Progress], None],
) -> Finished:
    """Start the ranks, follow them to their end, write down how it went."""
    began_ns = time.monotonic_ns()
    record = _record_of(request, invocation)

    def pass_on(chunk: bytes, is_error: bool) -> None:
        on_output(chunk, is_error)
        if record is not None:
            record.add(chunk)

    processes = RankProcesses(
        lambda report: command_of(request, report),
        record.environment if record else environment_of(request, None),
        on_output=pass_on,
    )
    try:
        while not processes.wait(LOOK_EVERY_S):
            if record is not None and (progress := record.look(processes, pass_on)) is not None:
                on_progress(progress)
    except KeyboardInterrupt:
        processes.interrupt()
    except BaseException:
        # Whatever befell the launcher, it leaves no ranks behind.
        processes.interrupt()
        raise
    outcome = processes.outcome()
    if record is not None:
        record.close(outcome, on_output)
    return Finished(
        outcome=outcome,
        run_dir=record.path if record else None,
        began_here=record is not None and record.began_here,
        wall_ns=time.monotonic_ns() - began_ns,
    )


def _record_of(request: RunRequest, invocation: list[str]) -> Record | None:
    if not request.record:
        return None
    return JoinedRun(request) if request.node_rank else OwnRun(request, invocation)
