"""Real processes that stay: a gloo group is started once a world size and runs many cases."""

import multiprocessing
import os
import tempfile
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

CASE_S = 60.0
START_S = 110.0


class CaseError(AssertionError):
    """A case failed on at least one rank; the tracebacks of all of them."""


class Team:
    """`world` processes that run the same function and hand back what each returned."""

    def __init__(self, world: int) -> None:
        self.world = world
        self._members: list[tuple[multiprocessing.process.BaseProcess, Connection]] = []

    def run(self, case: Callable[..., Any], **arguments: Any) -> list[Any]:
        """The results in rank order; after a failed or hung case the next one starts anew."""
        try:
            answers = self.outcomes(case, **arguments)
        except (EOFError, OSError) as error:
            self.stop()
            raise CaseError(f"a rank of {self.world} is gone: {error!r}") from error
        failures = [str(what) for healthy, what in answers if not healthy]
        if failures:
            self.stop()
            raise CaseError("\n".join(failures))
        return [result for _, result in answers]

    def outcomes(self, case: Callable[..., Any], **arguments: Any) -> list[tuple[bool, Any]]:
        """For each rank whether it returned, and what; or the traceback."""
        if not self._members:
            self._start()
        for _, pipe in self._members:
            pipe.send((case, arguments))
        answers: list[tuple[bool, Any]] = []
        for rank, (_, pipe) in enumerate(self._members):
            if not pipe.poll(CASE_S):
                answers.append((False, f"rank {rank} of {self.world} did not answer"))
                continue
            try:
                answers.append(pipe.recv())
            except EOFError:
                answers.append((False, f"rank {rank} ended"))
        return answers

    def stop(self) -> None:
        """End the processes."""
        for process, pipe in self._members:
            pipe.close()
            process.join(timeout=1)
            process.kill()
            process.join()
        self._members = []

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        meeting_place = Path(tempfile.mkdtemp()) / "store"
        os.environ["OMP_NUM_THREADS"] = "1"
        for rank in range(self.world):
            ours, theirs = context.Pipe()
            process = context.Process(
                target=_serve, args=(theirs, rank, self.world, str(meeting_place)), daemon=True
            )
            process.start()
            theirs.close()
            self._members.append((process, ours))
        for _, pipe in self._members:
            assert pipe.poll(START_S) and pipe.recv() == "ready"


def _serve(pipe: Connection, rank: int, world: int, meeting_place: str) -> None:
    import warnings

    import torch
    import torch.distributed as dist

    warnings.simplefilter("error")
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method=f"file://{meeting_place}", rank=rank, world_size=world
    )
    leave_no_engine = _engines_that_were_built()
    pipe.send("ready")
    while True:
        try:
            case, arguments = pipe.recv()
        except (EOFError, OSError):
            break
        try:
            pipe.send((True, case(**arguments)))
        except BaseException:
            pipe.send((False, f"rank {rank}:\n{traceback.format_exc()}"))
        leave_no_engine()
    os._exit(0)


def _engines_that_were_built() -> Callable[[], None]:
    """Note the groups of all engines from now on; what is returned leaves them.

    A group has threads that look for work a hundred times a second. Those of some hundred cases
    would take the machine from the tests that follow.
    """
    from engine.collectives import Collectives

    built: list[Collectives] = []
    begin = Collectives.__init__

    def begin_and_note(self: Collectives, *arguments: Any, **named: Any) -> None:
        begin(self, *arguments, **named)
        built.append(self)

    Collectives.__init__ = begin_and_note  # type: ignore[method-assign]

    def leave() -> None:
        while built:
            built.pop().close()

    return leave
