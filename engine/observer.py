"""The one bridge from the engine's facts to rows of the run directory.

Everything here happens between steps, on plain numbers that the engine had anyway: nothing is
synchronised, a device is asked only how far it got, and a collective is never touched. What the
recording of a step costs is part of the next step's `other`.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

import torch
from torch.nn import Module

from engine.activations import ActivationWatch
from engine.blame import bad_weights, overflow_rows
from engine.collectives import Collectives
from engine.comm_rows import CommRows
from engine.facts import (
    CheckpointFacts,
    CollectiveFacts,
    OffloadFacts,
    OverflowFacts,
    StepFacts,
)
from engine.intake import Intake
from engine.kept import KeptActivations
from engine.late import EndedStep, LateSteps
from engine.memory import Ledger
from engine.memory_rows import MemoryRows
from engine.numerics import Numerics
from engine.recording import Session, Stand
from engine.segments import Segment
from engine.tracing import PhaseClock
from engine.window import Profiler
from probe.record.rank import RankWriter
from probe.schema.documents import LastCollective
from probe.schema.rows import EventRow, OffloadRow, StepRow
from probe.schema.vocabulary import CollectiveOp, Phase

CALLS_EVERY_STEPS = 50
"""Every so many steps each collective gets a row of its own."""
LEDGER_EVERY_STEPS = 20
"""Model states keep their size after the first steps; walking over them is not for every step."""
FIRST_STEPS = 3
LONGEST_BLOCK_NAME = 100
"""Characters of it in a heartbeat, which has a fixed length."""


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
    def device(self) -> torch.device:
        """Where it computes."""

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
        self._collectives = CommRows(engine.world_size, backend_op)
        self._memory = MemoryRows(engine.ledger, engine.kept, engine.device)
        self._profiler = profiler
        self._numerics = numerics
        self._micro_batch_samples = micro_batch_samples
        self._late = LateSteps(self._write)
        session.before_end.append(self._late.finish)
        if profiler is not None:
            session.before_end.append(self._end_window)
        self._intake = Intake(engine.module)
        self._outputs = ActivationWatch(engine.module, engine.global_rank)
        self._calls: list[CollectiveFacts] = []
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
            self._memory.take_ledger()

    def step_ended(self, facts: StepFacts) -> None:
        """Write the step's rows; on a device whose time is taken, in a later step."""
        if facts.applied and self._outputs.armed:
            self._outputs.disarm()
        calls, self._calls = self._calls, []
        samples, tokens = self._intake.take()
        if samples is None and self._micro_batch_samples is not None:
            samples = self._micro_batch_samples * facts.micro_batches
        self._late.add(
            EndedStep(
                facts=facts,
                calls=calls,
                memory=self._memory.row(facts.step, grows=self._steps_seen < FIRST_STEPS),
                samples=samples,
                tokens=tokens if self._session.tokens is None else self._session.tokens,
                profiled=self._profiler is not None and self._profiler.disturbs(facts.step),
            )
        )
        if self._numerics is not None and (rows := self._numerics.take()):
            self._writer.write_all(rows)
        if self._profiler is not None and (told := self._profiler.step_ended(facts.step)):
            self._writer.write(told)
            self._engine.clock.turn_over()
        self._step_wall_ns = facts.wall_ns
        self._steps_seen += 1

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

    def _write(self, ended: EndedStep) -> None:
        step, calls = ended.facts.step, ended.calls
        sampled = step % CALLS_EVERY_STEPS == FIRST_STEPS
        self._writer.write_tables(
            (
                (_step_row(ended),),
                self._collectives.sums(step, calls),
                self._collectives.calls(step, calls) if sampled else (),
                (ended.memory,),
                [_offload_row(step, transfers) for transfers in ended.facts.offload],
            )
        )


def _step_row(ended: EndedStep) -> StepRow:
    facts, spent = ended.facts, ended.facts.phase_ns
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
        samples=ended.samples,
        tokens=ended.tokens,
        loss=facts.loss(),
        lr=facts.learning_rates[0] if facts.learning_rates else None,
        grad_norm=facts.gradient_norm,
        clip_coefficient=facts.clip_coefficient,
        loss_scale=facts.loss_scale_used,
        loss_scale_next=facts.loss_scale_next,
        hysteresis_left=facts.hysteresis_left,
        skipped=not facts.applied,
        skip_reason=facts.skip_reason,
        profiled=ended.profiled,
    )


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
