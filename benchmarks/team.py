"""All ranks of one contestant, seen from the parent: started once, given turns, sent home."""

from dataclasses import dataclass, field
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from benchmarks.setting import Setting
from benchmarks.worker import Failure, Memory, Order, Seat, Turn, serve

DEADLINE_S = 300.0
"""No turn and no start-up takes longer; DeepSpeed may compile its optimizer at the first start."""


class ContestantError(Exception):
    """A contestant could not go on; its log says why."""


@dataclass(frozen=True, kw_only=True)
class Worker:
    """One rank's process and the parent's end of its pipe."""

    seat: Seat
    process: SpawnProcess
    connection: Connection


@dataclass(kw_only=True)
class Team:
    """The ranks of one contestant. A context manager: its processes end with it."""

    contestant: str
    setting: Setting
    folder: Path
    workers: list[Worker] = field(default_factory=list)

    def __enter__(self) -> Self:
        """Start every rank and wait until each has built its share."""
        context = get_context("spawn")
        for rank in range(self.setting.ranks):
            seat = Seat(
                contestant=self.contestant, setting=self.setting, rank=rank, folder=self.folder
            )
            ours, theirs = context.Pipe()
            process = context.Process(target=serve, args=(theirs, seat), daemon=True)
            process.start()
            theirs.close()
            self.workers.append(Worker(seat=seat, process=process, connection=ours))
        try:
            self._answers()
        except BaseException:
            self._end(kill=True)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End every process, whatever happened."""
        self._end(kill=kind is not None)

    def take_turn(self, steps: int) -> list[Turn]:
        """Let the team take some steps; one report per rank."""
        return self._ask(steps)

    def settle(self) -> None:
        """Return freed memory and start the peaks anew."""
        self._ask(Order.SETTLE)

    def finish(self) -> list[Memory]:
        """Send the team home; one memory account per rank."""
        return self._ask(Order.FINISH)

    def _end(self, *, kill: bool) -> None:
        for worker in self.workers:
            if kill:
                worker.process.kill()
            worker.process.join(DEADLINE_S)
            worker.connection.close()

    def _ask(self, order: int | str) -> list[Any]:
        for worker in self.workers:
            worker.connection.send(order)
        return self._answers()

    def _answers(self) -> list[Any]:
        """Collect one answer per rank, in rank order; the first failure ends the wait."""
        waiting: dict[object, Worker] = {worker.connection: worker for worker in self.workers}
        answers: dict[int, Any] = {}
        while waiting:
            ready = wait([worker.connection for worker in waiting.values()], timeout=DEADLINE_S)
            if not ready:
                ranks = [worker.seat.rank for worker in waiting.values()]
                raise ContestantError(
                    f"{self.contestant}: ranks {ranks} said nothing for {DEADLINE_S:.0f} s\n"
                    f"--- end of the log of rank {ranks[0]} ---\n"
                    f"{_tail(self.workers[ranks[0]].seat.log)}"
                )
            for connection in ready:
                worker = waiting.pop(connection)
                answers[worker.seat.rank] = self._answer(worker)
        return [answers[rank] for rank in sorted(answers)]

    def _answer(self, worker: Worker) -> Any:
        try:
            answer = worker.connection.recv()
        except EOFError:
            answer = Failure(text="the process ended without a word")
        if isinstance(answer, Failure):
            raise ContestantError(
                f"{self.contestant}, rank {worker.seat.rank}: {answer.text.strip()}\n"
                f"--- end of its log ---\n{_tail(worker.seat.log)}"
            )
        return answer


def _tail(log: Path, lines: int = 15) -> str:
    if not log.exists():
        return "(no log)"
    return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])
