"""The one bridge from the engine's facts to rows of the run directory.

Everything here happens between steps, on plain numbers that the engine had anyway: nothing is
synchronised, nothing is asked of a device, and a collective is never touched. What the recording of
a step costs is part of the next step's `other`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from time import monotonic_ns
from typing import Protocol

from torch.nn import Module

from engine.activations import ActivationWatch
from engine.blame import bad_weights, overflow_rows
from engine.collectives import Collectives
from engine.facts import (
    CheckpointFacts,
    CollectiveFacts,
    OffloadFacts,
    OverflowFacts,
    StepFacts,
)
from engine.intake import Intake
from engine.kept import KeptActivations
from engine.memory import Ledger
from engine.numerics import Numerics
from engine.recording import Session, Stand
from engine.resident import resident
from engine.segments import Segment
from engine.tracing import PhaseClock, covered_ns
from engine.window import Profiler
from probe.record.rank import RankWriter
from probe.schema.documents import LastCollective
from probe.schema.rows import (
    CommCallRow,
    CommRow,
    EventRow,
    MemoryRow,
    OffloadRow,
    StepRow,
)
from probe.schema.vocabulary import CollectiveOp, MemoryCategory, Phase

CALLS_EVERY_STEPS = 50
"""Every so many steps each collective gets a row of its own."""
LEDGER_EVERY_STEPS = 20
"""Model states keep their size after the first steps; walking over them is not for every step."""
FIRST_STEPS = 3
RESIDENT_AGE_NS = 100_000_000
"""Asking the system costs much beside a step of few milliseconds: an answer serves for so long."""
LONGEST_BLOCK_NAME = 100
"""Characters of it in a heartbeat, which has a fixed length."""


@dataclass(kw_only=True)
class _Sum:
    """All collectives of one kind in one phase of a step."""

    calls: int = 0
    logical_bytes: int = 0
    wire_bytes: int = 0
    exposed_ns: int = 0
    intervals: list[tuple[int, int]] = field(default_factory=list)


class Recorded(Protocol):
    """What the recorder asks of whoever trains: the engine, or a loop that is watched."""

    @property
    def module(self) -> Module:
        """The model."""

    @property
    def global_rank(self) -> int:
        """Which rank this is."""

    @property
    def world_size(self) -> int:
        """How many there are."""

    @property
    def clock(self) -> PhaseClock:
        """Where the time of the step under way is written."""

    @property
    def segments(self) -> Sequence[Segment]:
        """What this rank updates, where that is kept in segments."""

    @property
    def collectives(self) -> Collectives | None:
        """The door to the other ranks; None for a loop that has its own."""

    @property
    def kept(self) -> KeptActivations:
        """What forward keeps for backward, in bytes."""

    def ledger(self) -> Ledger:
        """The bytes of model states."""


class Recorder:
    """Listens to one engine and writes what it says."""

    def __init__(
        self,
        session: Session,
        writer: RankWriter,
        engine: Recorded,
        *,
        backend_op: Callable[[CollectiveOp], CollectiveOp],
        profiler: Profiler | None,
        numerics: Numerics | None,
        micro_batch_samples: int | None = None,
    ) -> None:
        self._session = session
        self._writer = writer
        self._engine = engine
        self._rank = session.header.rank
        self._world = engine.world_size
        self._backend_op = backend_op
        self._profiler = profiler
        self._numerics = numerics
        self._micro_batch_samples = micro_batch_samples
        if profiler is not None:
            session.before_end.append(self._end_window)
        self._intake = Intake(engine.module)
        self._outputs = ActivationWatch(engine.module, engine.global_rank)
        self._calls: list[CollectiveFacts] = []
        self._held: dict[str, int] = {}
        self._resident = resident()
        self._resident_asked_ns = monotonic_ns()
        self._step = 0
        self._steps_seen = 0
        """Of this process: a resumed run does not begin with step 0."""
        self._step_wall_ns: int | None = None

    def step_began(self, step: int) -> None:
        """A step starts."""
        self._step = self._session.step = step
        self._session.tokens = None
        if self._numerics is not None:
            self._numerics.step_began(step)
        if self._profiler is not None:
            self._profiler.step_began(step)
        if self._takes_ledger(step):
            self._engine.kept.arm()

    def collective_done(self, facts: CollectiveFacts) -> None:
        """Keep one collective; they are added up at the end of the step, in one go.

        Between computing every line of ours is cold and costs several times what it costs warm.
        """
        self._calls.append(facts)

    def overflow_found(self, facts: OverflowFacts) -> None:
        """Write where it began, as far as this rank can tell, and watch the next step closely."""
        rows = overflow_rows(
            facts,
            rank=self._rank,
            outputs=self._outputs.take(),
            weights=bad_weights(self._engine.segments, self._rank),
        )
        if rows:
            self._writer.write_all(rows)
        self._outputs.arm()

    def checkpoint_done(self, facts: CheckpointFacts) -> None:
        """Write what it took; steps that the engine jumped to by loading are those to come."""
        self._writer.write(
            EventRow(
                time_ns=facts.began_ns,
                kind=facts.kind,
                step=self._step,
                name=facts.tag,
                duration_ns=facts.duration_ns,
                blocking_ns=facts.blocking_ns,
                size_bytes=facts.size_bytes,
            )
        )

    def gradients_ready(self) -> None:
        """Take the ledger now that most is held; in most steps it is that of a step before."""
        if self._takes_ledger(self._step):
            self._engine.kept.disarm()
            self._held = self._ledger()

    def step_ended(self, facts: StepFacts) -> None:
        """Write the step's rows."""
        if facts.applied and self._outputs.armed:
            self._outputs.disarm()
        step, calls = facts.step, self._calls
        sampled = step % CALLS_EVERY_STEPS == FIRST_STEPS
        self._writer.write_tables(
            (
                (self._step_row(facts),),
                [self._comm_row(step, *key, total) for key, total in _sums_of(calls).items()],
                [self._call_row(step, call) for call in calls] if sampled else (),
                (self._memory_row(step),),
                [_offload_row(step, transfers) for transfers in facts.offload],
            )
        )
        if self._numerics is not None and (rows := self._numerics.take()):
            self._writer.write_all(rows)
        if self._profiler is not None and (told := self._profiler.step_ended(facts.step)):
            self._writer.write(told)
            self._engine.clock.turn_over()
        self._step_wall_ns = facts.wall_ns
        self._steps_seen += 1
        calls.clear()

    def stand(self) -> Stand:
        """Where the engine is now; asked by another thread, so it reads and changes nothing."""
        collectives, clock = self._engine.collectives, self._engine.clock
        waited_for = None if collectives is None else collectives.waited_for
        latest = waited_for or (None if collectives is None else collectives.launched)
        return Stand(
            mark=(clock.mark_ns, 0 if latest is None else latest.sequence),
            step=self._step,
            phase=clock.current,
            step_wall_ns=self._step_wall_ns,
            collective=None
            if latest is None
            else LastCollective(
                sequence=latest.sequence,
                op=latest.op,
                block=latest.block[:LONGEST_BLOCK_NAME],
                done=waited_for is None,
            ),
        )

    def _takes_ledger(self, step: int) -> bool:
        return self._steps_seen < FIRST_STEPS or step % LEDGER_EVERY_STEPS == 0

    def _end_window(self) -> None:
        """The script ended within the window."""
        assert self._profiler is not None, "asked for where there is one"
        if told := self._profiler.end():
            self._writer.write(told)

    def _step_row(self, facts: StepFacts) -> StepRow:
        spent = facts.phase_ns
        samples, tokens = self._intake.take()
        if samples is None and self._micro_batch_samples is not None:
            samples = self._micro_batch_samples * facts.micro_batches
        return StepRow(
            step=facts.step,
            begin_ns=facts.began_ns,
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
            recompute_ns=facts.recompute_ns,
            micro_batches=facts.micro_batches,
            samples=samples,
            tokens=tokens if self._session.tokens is None else self._session.tokens,
            loss=facts.loss,
            lr=facts.learning_rates[0] if facts.learning_rates else None,
            grad_norm=facts.gradient_norm,
            clip_coefficient=facts.clip_coefficient,
            loss_scale=facts.loss_scale_used,
            loss_scale_next=facts.loss_scale_next,
            hysteresis_left=facts.hysteresis_left,
            skipped=not facts.applied,
            skip_reason=facts.skip_reason,
            profiled=self._profiler is not None and self._profiler.disturbs(facts.step),
        )

    def _comm_row(
        self, step: int, phase: Phase, op: CollectiveOp, dtype: str, total: _Sum
    ) -> CommRow:
        return CommRow(
            step=step,
            phase=phase,
            op=op,
            wire_op=self._backend_op(op),
            group_size=self._world,
            dtype=dtype,
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
            dtype=facts.dtype,
            block=facts.block,
            logical_bytes=facts.logical_bytes,
            wire_bytes=facts.wire_bytes,
            enqueue_ns=facts.launched_ns,
            # Not the launch: what lies between is this rank's own work, and its end is only seen
            # once it is waited for, so a slow rank would seem to wait for itself.
            start_ns=facts.wait_began_ns,
            end_ns=facts.done_ns,
            exposed_ns=facts.exposed_ns,
        )

    def _memory_row(self, step: int) -> MemoryRow:
        if self._steps_seen < FIRST_STEPS:
            # Optimizer states come into being within the first step, after the gradients.
            later = self._ledger()
            self._held = {name: max(self._held.get(name, 0), held) for name, held in later.items()}
        now_ns = monotonic_ns()
        if now_ns - self._resident_asked_ns >= RESIDENT_AGE_NS:
            self._resident_asked_ns = now_ns
            self._resident = resident()
        return MemoryRow(
            step=step,
            rss_bytes=self._resident.now_bytes,
            peak_rss_bytes=self._resident.peak_bytes,
            **self._held,
        )

    def _ledger(self) -> dict[str, int]:
        """The ledger as columns of the memory table."""
        ledger = self._engine.ledger()
        elsewhere: dict[MemoryCategory, int] = dict.fromkeys(MemoryCategory, 0)
        columns = {}
        for (tier, category), size in ledger.away_bytes.items():
            elsewhere[category] += size
            columns[f"{tier}_{category}_bytes"] = size
        return {
            **{
                f"device_{category}_bytes": ledger.held_bytes.get(category, 0) - away
                for category, away in elsewhere.items()
            },
            **columns,
            "host_activations_bytes": self._engine.kept.host_bytes,
        }


def _offload_row(step: int, facts: OffloadFacts) -> OffloadRow:
    return OffloadRow(
        step=step,
        tier=facts.tier,
        direction=facts.direction,
        category=facts.category,
        transfers=facts.transfers,
        moved_bytes=facts.moved_bytes,
        busy_ns=facts.busy_ns,
        exposed_ns=facts.exposed_ns,
        queue_depth=facts.queue_depth,
    )


def _sums_of(
    calls: Sequence[CollectiveFacts],
) -> dict[tuple[Phase, CollectiveOp, str], _Sum]:
    """The collectives of a step by phase, operation and type, in the order of their first."""
    sums: dict[tuple[Phase, CollectiveOp, str], _Sum] = {}
    for call in calls:
        key = call.phase, call.op, call.dtype
        total = sums.get(key)
        if total is None:
            total = sums[key] = _Sum()
        total.calls += 1
        total.logical_bytes += call.logical_bytes
        total.wire_bytes += call.wire_bytes
        total.exposed_ns += call.done_ns - call.wait_began_ns
        total.intervals.append((call.launched_ns, call.done_ns))
    return sums
