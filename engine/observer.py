"""The one bridge from the engine's facts to rows of the run directory.

Everything here happens between steps, on plain numbers that the engine had anyway: nothing is
synchronised, nothing is asked of a device, and a collective is never touched. What the recording of
a step costs is part of the next step's `other`.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from resource import getpagesize

from engine.facts import CollectiveFacts, OverflowFacts, StepFacts
from engine.memory import Ledger
from engine.recording import Session, peak_rss_bytes
from probe.record.rank import RankWriter
from probe.schema.documents import LastCollective
from probe.schema.rows import CommCallRow, CommRow, MemoryRow, OverflowRow, StepRow
from probe.schema.vocabulary import CollectiveOp, MemoryCategory, Phase, TensorRole

CALLS_EVERY_STEPS = 50
"""Every so many steps each collective gets a row of its own."""
LEDGER_EVERY_STEPS = 20
"""Model states keep their size after the first steps; walking over them is not for every step."""
FIRST_STEPS = 3
_STATM = Path("/proc/self/statm")


@dataclass(kw_only=True)
class _Sum:
    """All collectives of one kind in one phase of the step under way."""

    calls: int = 0
    logical_bytes: int = 0
    wire_bytes: int = 0
    exposed_ns: int = 0
    intervals: list[tuple[int, int]] = field(default_factory=list)


class Recorder:
    """Listens to one engine and writes what it says."""

    def __init__(
        self,
        session: Session,
        writer: RankWriter,
        *,
        world: int,
        backend_op: Callable[[CollectiveOp], CollectiveOp],
        wire_dtype: str,
        ledger: Callable[[], Ledger],
        micro_batch_samples: int | None,
    ) -> None:
        self._session = session
        self._writer = writer
        self._rank = session.header.rank
        self._world = world
        self._backend_op = backend_op
        self._wire_dtype = wire_dtype
        self._ledger = ledger
        self._micro_batch_samples = micro_batch_samples
        self._sums: dict[tuple[Phase, CollectiveOp], _Sum] = {}
        self._calls: list[CollectiveFacts] = []
        self._held: dict[str, int] = {}
        self._step = 0
        self._last: LastCollective | None = None

    def step_began(self, step: int) -> None:
        """A step starts."""
        self._step = self._session.step = step

    def collective_done(self, facts: CollectiveFacts) -> None:
        """Add one collective to the step's sums."""
        total = self._sums.get((facts.phase, facts.op))
        if total is None:
            total = self._sums[facts.phase, facts.op] = _Sum()
        total.calls += 1
        total.logical_bytes += facts.logical_bytes
        total.wire_bytes += facts.wire_bytes
        total.exposed_ns += facts.exposed_ns
        total.intervals.append((facts.launched_ns, facts.done_ns))
        if self._step % CALLS_EVERY_STEPS == FIRST_STEPS:
            self._calls.append(facts)
        self._last = LastCollective(
            sequence=facts.sequence, op=facts.op, block=facts.block, done=True
        )

    def overflow_found(self, facts: OverflowFacts) -> None:
        """Write the offenders of this rank; what no rank can be blamed for is rank 0's to tell."""
        for place, bad in enumerate(facts.offenders):
            if bad.rank == self._rank or (bad.rank is None and self._rank == 0):
                self._writer.write(
                    OverflowRow(
                        step=facts.step,
                        role=TensorRole(bad.role),
                        kind=bad.kind,
                        parameter=bad.name,
                        module=bad.name.rpartition(".")[0] or None,
                        phase=Phase.BACKWARD,
                        loss_scale=facts.loss_scale,
                        first=place == 0,
                    )
                )

    def step_ended(self, facts: StepFacts) -> None:
        """Write the step's rows and leave a sign of life."""
        self._session.take_over()
        self._writer.write(self._step_row(facts))
        for (phase, op), total in self._sums.items():
            self._writer.write(self._comm_row(facts.step, phase, op, total))
        for call in self._calls:
            self._writer.write(self._call_row(facts.step, call))
        self._writer.write(self._memory_row(facts.step))
        self._writer.beat(
            step=facts.step,
            phase=Phase.OTHER,
            step_wall_ns=facts.wall_ns,
            collective=self._last,
        )
        self._sums.clear()
        self._calls.clear()

    def _step_row(self, facts: StepFacts) -> StepRow:
        spent = facts.phase_ns
        samples = self._micro_batch_samples
        return StepRow(
            step=facts.step,
            begin_ns=time.monotonic_ns() - facts.wall_ns,
            wall_ns=facts.wall_ns,
            data_ns=spent[Phase.DATA],
            forward_ns=spent[Phase.FORWARD],
            backward_ns=spent[Phase.BACKWARD],
            gather_wait_ns=spent[Phase.GATHER_WAIT],
            reduce_wait_ns=spent[Phase.REDUCE_WAIT],
            optimizer_ns=spent[Phase.OPTIMIZER],
            offload_wait_ns=spent[Phase.OFFLOAD_WAIT],
            checkpoint_ns=spent[Phase.CHECKPOINT],
            other_ns=spent[Phase.OTHER],
            micro_batches=facts.micro_batches,
            samples=None if samples is None else samples * facts.micro_batches,
            loss=facts.loss,
            lr=facts.learning_rates[0] if facts.learning_rates else None,
            grad_norm=facts.gradient_norm,
            loss_scale=facts.loss_scale_used,
            loss_scale_next=facts.loss_scale_next,
            hysteresis_left=facts.hysteresis_left,
            skipped=not facts.applied,
            skip_reason=facts.skip_reason,
        )

    def _comm_row(self, step: int, phase: Phase, op: CollectiveOp, total: _Sum) -> CommRow:
        return CommRow(
            step=step,
            phase=phase,
            op=op,
            wire_op=self._backend_op(op),
            group_size=self._world,
            dtype=self._wire_dtype,
            calls=total.calls,
            logical_bytes=total.logical_bytes,
            wire_bytes=total.wire_bytes,
            busy_ns=covered_ns(total.intervals),
            exposed_ns=total.exposed_ns,
        )

    def _call_row(self, step: int, facts: CollectiveFacts) -> CommCallRow:
        return CommCallRow(
            step=step,
            sequence=facts.sequence,
            phase=facts.phase,
            op=facts.op,
            wire_op=self._backend_op(facts.op),
            group_size=self._world,
            dtype=self._wire_dtype,
            block=facts.block,
            logical_bytes=facts.logical_bytes,
            wire_bytes=facts.wire_bytes,
            enqueue_ns=facts.launched_ns,
            start_ns=facts.launched_ns,
            end_ns=facts.done_ns,
            exposed_ns=facts.exposed_ns,
        )

    def _memory_row(self, step: int) -> MemoryRow:
        if step < FIRST_STEPS or step % LEDGER_EVERY_STEPS == 0:
            held = self._ledger().held_bytes
            self._held = {
                f"device_{category}_bytes": held.get(category, 0) for category in MemoryCategory
            }
        return MemoryRow(
            step=step, rss_bytes=_rss_bytes(), peak_rss_bytes=peak_rss_bytes(), **self._held
        )


def covered_ns(intervals: Sequence[tuple[int, int]]) -> int:
    """How long at least one of the intervals was open."""
    total = 0
    reached = 0
    for begin, end in sorted(intervals):
        total += max(0, end - max(begin, reached))
        reached = max(reached, end)
    return total


def _rss_bytes() -> int | None:
    try:
        return int(_STATM.read_text().split()[1]) * getpagesize()
    except OSError:
        return None
