"""Whether this rank records, and where: opened by the worker before the script begins.

Without `probe run` there is no session and everything that would write to it does nothing. A thread
leaves signs of life. Until an engine is built, and in scripts that never build one, it beats
whatever happens and samples the memory; from then on it beats only when the engine has moved, so
that a hang does not look alive, and says where the engine stands.
"""

import os
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from engine.resident import resident
from engine.tracing import PhaseClock
from probe.errors import ProbeError
from probe.record.host import host_name
from probe.record.rank import RankWriter
from probe.schema.documents import Clock, Header, LastCollective
from probe.schema.handover import Handover
from probe.schema.rows import EventRow, MetricRow
from probe.schema.vocabulary import RSS_METRIC, EventKind, Phase, RankState

PULSE_S = 0.5
AHEAD_S = 3 * PULSE_S
"""So much before the launcher speaks, and may end the ranks, a rank has left its own word."""
SAMPLES_A_DOUBLING = 100
"""Without an engine memory is sampled ever more rarely: about so often until its age doubles."""
_LONGEST_MESSAGE = 2000


@dataclass(frozen=True, kw_only=True)
class Stand:
    """Where an engine is at a moment."""

    mark: tuple[int, ...]
    """Changes whenever the engine moves."""
    step: int
    phase: Phase
    step_wall_ns: int | None
    collective: LastCollective | None


class Session:
    """The recording of this rank, from the first line of the script to the last."""

    def __init__(self, handover: Handover) -> None:
        self.handover = handover
        self.header = Header(
            rank=int(os.environ.get("RANK", "0")),
            local_rank=int(os.environ.get("LOCAL_RANK", "0")),
            node=handover.node,
            host=host_name(),
            pid=os.getpid(),
            clock=Clock(wall_ns=time.time_ns(), monotonic_ns=time.monotonic_ns()),
        )
        self.writer = RankWriter(Path(handover.run_dir), self.header) if handover.run_dir else None
        self.step = 0
        """The step under way, for what is logged in it."""
        self.tokens: int | None = None
        """What the script says that it consumed in this step."""
        self.clock: PhaseClock | None = None
        """The engine's, once there is one."""
        self.before_end: list[Callable[[], None]] = []
        """What is to be done before the recording ends."""
        self._began_ns = time.monotonic_ns()
        self._where: Callable[[], Stand] | None = None
        self._ended = threading.Event()
        self._pulse = threading.Thread(target=self._beat_until_ended, name="pulse", daemon=True)
        if self.writer is not None:
            self._pulse.start()

    def take_over(self, where: Callable[[], Stand], clock: PhaseClock) -> None:
        """From now on an engine says where this rank stands."""
        self._where, self.clock = where, clock

    def failed(self, error: BaseException) -> None:
        """The script ended with an exception."""
        with suppress(Exception):  # One is enough, and it came first.
            self._prepare_end()
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
        """The script came to its end; an error of what remained to be done is the script's."""
        try:
            self._prepare_end()
        except ProbeError as error:
            self.failed(error)
            raise
        if self.writer is None:
            return
        self.writer.write(
            EventRow(
                time_ns=time.monotonic_ns(),
                kind=EventKind.FINISHED,
                message="The script came to its end.",
                duration_ns=time.monotonic_ns() - self._began_ns,
                size_bytes=resident().peak_bytes,
            )
        )
        if self._where is not None and (stand := self._where()).step:
            # No step is under way any more: the last that ended is what a list of runs counts.
            self.writer.beat(step=stand.step - 1, step_wall_ns=stand.step_wall_ns)
        self._end(RankState.CLOSED)

    def _prepare_end(self) -> None:
        while self.before_end:
            self.before_end.pop(0)()

    def _end(self, state: RankState) -> None:
        self._ended.set()
        self._pulse.join(timeout=5)
        assert self.writer is not None, "only a recording session ends"
        self.writer.close(state)

    def _beat_until_ended(self) -> None:
        assert self.writer is not None, "the pulse is for recording sessions"
        last_mark: tuple[int, ...] | None = None
        next_sample_ns = self._began_ns
        moved_ns, told = time.monotonic_ns(), False
        while not self._ended.wait(PULSE_S):
            if self._where is not None:
                stand = self._where()
                if stand.mark != last_mark:
                    last_mark = stand.mark
                    moved_ns, told = time.monotonic_ns(), False
                    self.writer.beat(
                        step=stand.step,
                        phase=stand.phase,
                        step_wall_ns=stand.step_wall_ns,
                        collective=stand.collective,
                    )
                elif not told:
                    told = self._tell_of_hang(self.writer, stand, moved_ns)
                continue
            self.writer.beat()
            now_ns = time.monotonic_ns()
            if now_ns >= next_sample_ns:
                next_sample_ns = now_ns + (now_ns - self._began_ns) // SAMPLES_A_DOUBLING
                self._sample_memory(self.writer, now_ns)

    def _tell_of_hang(self, writer: RankWriter, stand: Stand, moved_ns: int) -> bool:
        """Leave an event if this rank has not moved for too long; whether it did."""
        after_s = self.handover.hang_after_s
        still_ns = time.monotonic_ns() - moved_ns
        if after_s is None or still_ns < max(after_s - AHEAD_S, after_s / 2) * 1e9:
            return False
        last = stand.collective
        place = f"in {stand.phase}"
        if last is not None:
            known = f"{last.op} of {last.block} (number {last.sequence})"
            place = f"{place}, after {known}" if last.done else f"waiting in {known}"
        writer.write(
            EventRow(
                time_ns=moved_ns,
                kind=EventKind.HANG,
                step=stand.step,
                name="" if last is None else f"{last.op} of {last.block}",
                message=f"Not moved for {still_ns / 1e9:.0f} s, {place}.",
                duration_ns=still_ns,
            )
        )
        return True

    def _sample_memory(self, writer: RankWriter, now_ns: int) -> None:
        held_bytes = resident().now_bytes
        if held_bytes is not None:
            writer.write(MetricRow(step=0, name=RSS_METRIC, value=held_bytes, time_ns=now_ns))


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
