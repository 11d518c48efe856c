"""The engine of this repository under a recording, as `probe run` sets it up by default."""

import tempfile
from collections.abc import Callable
from pathlib import Path
from time import thread_time_ns
from typing import Any

from torch import Tensor

from benchmarks.model import GPT, Batch
from benchmarks.peers.zeroprobe import ZeroProbe
from benchmarks.peers.zeroprobe import build as build_plain
from benchmarks.setting import Setting
from engine import recording
from probe.schema.handover import Handover

OBSERVED = ("step_began", "step_ended")
"""Where the recorder works. What it keeps of a collective is one append: asking the clock around
each of those would cost several times what it measures."""


class Recorded(ZeroProbe):
    """As the plain one; also tells how much processor time a step's recording took."""

    def __init__(self, built: Any) -> None:
        super().__init__(built)
        self.parts_ns = {"recording": 0}
        observer = built.observer
        for name in OBSERVED:
            setattr(observer, name, self._timed(getattr(observer, name)))

    def step(self, batch: Batch) -> Tensor:
        """The same step, with the account of its recording."""
        self.parts_ns = {"recording": 0}
        return super().step(batch)

    def _timed(self, method: Callable[[Any], None]) -> Callable[[Any], None]:
        def timed(facts: Any) -> None:
            began_ns = thread_time_ns()
            method(facts)
            self.parts_ns["recording"] += thread_time_ns() - began_ns

        return timed


def build(model: GPT, setting: Setting) -> Recorded:
    """Begin a recording and hand the model to the engine."""
    folder = Path(tempfile.mkdtemp(prefix="recorded_"))
    session = recording.begin(Handover(run_dir=str(folder)))
    built = Recorded(build_plain(model, setting).engine)  # type: ignore[attr-defined]
    assert session.writer is not None and not session.writer.stop_reason, "it does record"
    return built
