"""Whether this rank records, and where: opened by the worker before the script begins.

Without `probe run` there is no session and everything that would write to it does nothing. The
engine takes the session over when it is built; until then, and in scripts that never build one, a
thread leaves a sign of life every second.
"""

import os
import resource
import socket
import sys
import threading
import time
import traceback
from pathlib import Path

from probe.record.rank import RankWriter
from probe.schema.documents import Clock, Header
from probe.schema.handover import Handover
from probe.schema.rows import EventRow
from probe.schema.vocabulary import EventKind, RankState

PULSE_S = 1.0
_LONGEST_MESSAGE = 2000


class Session:
    """The recording of this rank, from the first line of the script to the last."""

    def __init__(self, handover: Handover) -> None:
        self.handover = handover
        self.header = Header(
            rank=int(os.environ.get("RANK", "0")),
            local_rank=int(os.environ.get("LOCAL_RANK", "0")),
            host=socket.gethostname(),
            pid=os.getpid(),
            clock=Clock(wall_ns=time.time_ns(), monotonic_ns=time.monotonic_ns()),
        )
        self.writer = RankWriter(Path(handover.run_dir), self.header) if handover.run_dir else None
        self.step = 0
        """The step under way, for what is logged in it."""
        self._began_ns = time.monotonic_ns()
        self._engine_beats = threading.Event()
        self._pulse = threading.Thread(target=self._beat_until_taken, name="pulse", daemon=True)
        if self.writer is not None:
            self._pulse.start()

    def take_over(self) -> None:
        """From now on the engine's steps are the signs of life: a hang must not look alive."""
        self._engine_beats.set()

    def failed(self, error: BaseException) -> None:
        """The script ended with an exception."""
        if self.writer is None:
            return
        text = "".join(traceback.format_exception_only(error)).strip()
        self.writer.write(
            EventRow(
                time_ns=time.monotonic_ns(),
                kind=EventKind.EXCEPTION,
                name=type(error).__name__,
                message=text[:_LONGEST_MESSAGE],
            )
        )
        self._end(RankState.FAILED)

    def finished(self) -> None:
        """The script came to its end."""
        if self.writer is None:
            return
        self.writer.write(
            EventRow(
                time_ns=time.monotonic_ns(),
                kind=EventKind.FINISHED,
                message="The script came to its end.",
                duration_ns=time.monotonic_ns() - self._began_ns,
                size_bytes=peak_rss_bytes(),
            )
        )
        self._end(RankState.CLOSED)

    def _end(self, state: RankState) -> None:
        self._engine_beats.set()
        self._pulse.join(timeout=5)
        assert self.writer is not None, "only a recording session ends"
        self.writer.close(state)

    def _beat_until_taken(self) -> None:
        assert self.writer is not None, "the pulse is for recording sessions"
        while not self._engine_beats.wait(PULSE_S):
            self.writer.beat()


_session: Session | None = None


def begin(handover: Handover) -> Session:
    """Open the session of this process; once."""
    global _session
    assert _session is None, "a process records one run"
    _session = Session(handover)
    return _session


def current() -> Session | None:
    """The session of this process; None without `probe run`."""
    return _session


def peak_rss_bytes() -> int:
    """Largest resident memory of this process since its start."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
