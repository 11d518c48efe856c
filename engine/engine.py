"""A step, told in order: forward, backward, and at the boundary one update that all ranks agree on.

The `Engine` only conducts. Where weights and gradients live is the stage's matter, how they are
updated the update's, what is cast the precision's, how large the loss scale is the scaler's;
what one may ask is in `questions.py`.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor
from torch.nn import Module

from engine.blame import bad_losses
from engine.checkpoint import CheckpointCalls, Checkpoints, Counters, Parts
from engine.collectives import Collectives, Meeting
from engine.config.policies import Config
from engine.facts import Observer, OverflowFacts, StepFacts
from engine.kept import KeptActivations
from engine.loss_scale import LossScaler, ScaleAtMinimumError
from engine.micro_batches import MicroBatches, mean_of
from engine.partition import Member
from engine.precision import autocast, cast_inputs
from engine.questions import Questions
from engine.recomputation import Recomputation
from engine.stages import Stage
from engine.storage import Places
from engine.tracing import PhaseClock
from engine.update import Outcome, Update, UpdateWatch
from probe.errors import UsageError
from probe.schema.vocabulary import Phase, Precision, SkipReason


class Engine(Questions, CheckpointCalls):
    """A model that trains over all ranks; what it does not know itself it asks the model."""

    def __init__(
        self,
        *,
        module: Module,
        config: Config,
        members: list[Member],
        stage: Stage,
        kept: KeptActivations,
        recomputation: Recomputation,
        update: Update | None,
        scaler: LossScaler,
        schedule: Any | None,
        collectives: Collectives,
        clock: PhaseClock,
        places: Places,
        meeting: Meeting,
    ) -> None:
        self.module = module
        self.config = config
        self.collectives = collectives
        self.clock = clock
        self.places = places
        self.device = meeting.device
        self.local_rank = meeting.local_rank
        self.global_rank = collectives.rank
        self.world_size = collectives.world
        self.lr_scheduler = schedule
        self.loss_scaler = scaler
        self.global_steps = 0
        self.skipped_steps = 0
        self.micro_steps = 0
        self.kept = kept
        self.last_overflow: OverflowFacts | None = None
        self._members = members
        self._stage = stage
        self._recomputation = recomputation
        self._update = update
        self._micro_batches = MicroBatches(collectives.rank)
        self._backward_since_step = False
        self._synchronise = True
        self._held_back = False
        self._averaged = False
        self._applied = False
        self._gradient_norm = 0.0
        self._last_applied_step: int | None = None
        self.checkpoints = Checkpoints(
            Parts(
                module=module,
                config=config,
                members=members,
                stage=stage,
                update=update,
                scaler=scaler,
                schedule=schedule,
                collectives=collectives,
                clock=clock,
                device=meeting.device,
                counters=self._counters,
                begin_at=self._begin_at,
            )
        )
        self._say_where()

    # - The training loop

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the model on inputs cast to its precision."""
        precision = self.config.precision.precision
        with (
            self.clock.phase(Phase.FORWARD),
            self.kept.watching_forward(),
            autocast(precision, self.device),
        ):
            return self.module(*cast_inputs(args, precision), **cast_inputs(kwargs, precision))

    __call__ = forward

    def backward(self, loss: Tensor, *, retain_graph: bool = False) -> Tensor:
        """Gradients of `loss`, scaled; averaged over the ranks when the stage says so."""
        if self._update is None:
            raise UsageError("this engine has no optimizer, so there is nothing to train")
        self._micro_batches.admit(loss, self.loss_scaler.scale)
        accumulation = self.config.batch.accumulation_steps
        # Stages 2 and 3 send each micro-batch to its owners: that is what lets them not hold
        # gradients.
        synchronise = self._synchronise and (
            self.config.zero.stage >= 2 or self.is_gradient_accumulation_boundary()
        )
        self.clock.claim(Phase.FORWARD)
        self._update.first_bad.begin(len(self._micro_batches))
        self._micro_batches.losses.append(loss.detach())
        with self.clock.phase(Phase.BACKWARD):
            self._stage.begin_backward(synchronise=synchronise)
            scaled = loss.float() * (self.loss_scaler.scale / accumulation)
            scaled.backward(retain_graph=retain_graph)  # type: ignore[no-untyped-call]
            self._stage.end_backward()
            self._update.first_bad.end()
            self.kept.forget()
        if synchronise and not self._held_back:
            self._stage.date(len(self._micro_batches) - 1)
        self._held_back = not synchronise
        self._micro_batches.scale_used = self.loss_scaler.scale
        self._backward_since_step = True
        self._averaged = synchronise
        return loss

    def step(self) -> None:
        """End a micro-batch; at the boundary update the weights, or skip on overflow."""
        if self._update is None:
            raise UsageError("this engine has no optimizer, so there is nothing to step")
        if not self._backward_since_step:
            raise UsageError(
                f"rank {self.global_rank}: step() without backward() in step {self.global_steps};"
                " call engine.backward(loss) once before each engine.step()"
            )
        boundary = self.is_gradient_accumulation_boundary()
        self._backward_since_step = False
        self.micro_steps += 1
        self._applied = False
        if not boundary:
            return
        if not self._averaged:
            self._backward_since_step = True
            self.micro_steps -= 1
            raise UsageError(
                f"rank {self.global_rank}: step {self.global_steps} would update with gradients"
                " that stayed local; run the last backward before the boundary outside no_sync()"
            )
        scale_used = self._micro_batches.scale_used
        assert scale_used is not None, "a backward has happened"
        self.observer.gradients_ready()
        with self.clock.phase(Phase.OPTIMIZER):
            outcome = self._update.run(scale=scale_used)
            if outcome.applied:
                self._stage.publish()
            self._stage.clear()
        self._conclude(outcome, scale_used)
        self.checkpoints.save_if_due(self.global_steps)

    def is_gradient_accumulation_boundary(self) -> bool:
        """Whether the next `step` updates the weights."""
        return (self.micro_steps + 1) % self.config.batch.accumulation_steps == 0

    def was_step_applied(self) -> bool:
        """Whether the last `step` changed the weights."""
        return self._applied

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Gradients of backwards inside stay local, whole in every stage, until one outside."""
        before, self._synchronise = self._synchronise, False
        try:
            yield
        finally:
            self._synchronise = before

    def train(self, mode: bool = True) -> "Engine":
        """Training mode."""
        self.module.train(mode)
        return self

    def eval(self) -> "Engine":
        """Evaluation mode."""
        return self.train(False)

    def zero_grad(self) -> None:
        """Forget what was accumulated."""
        self._stage.clear()

    # - Who looks on

    @property
    def observer(self) -> Observer:
        """Who is told facts."""
        return self.collectives.observer

    @observer.setter
    def observer(self, observer: Observer) -> None:
        self.collectives.observer = observer
        observer.step_began(self.global_steps)

    def watch_updates(self, watch: UpdateWatch) -> None:
        """Let someone look at gradients and weights around every update."""
        if self._update is not None:
            self._update.watch = watch

    def note_micro_batches(self) -> None:
        """Note which gradients go bad in each micro-batch, where they are added up first."""
        if self._update is not None and self.config.zero.stage < 2:
            self._update.first_bad.notes_sums = self.gradient_accumulation_steps() > 1

    def close(self) -> None:
        """Wait for a checkpoint on its way, then tell the peers that this rank is done.

        Files of offloaded states go with it.
        """
        try:
            self.checkpoints.finish()
        finally:
            self.collectives.close()
            self.places.close()

    def __getattr__(self, name: str) -> Any:
        if name == "module":
            raise AttributeError(name)
        return getattr(self.module, name)

    # - After a step

    def _conclude(self, outcome: Outcome, scale_used: float) -> None:
        step = self.global_steps
        self._applied = outcome.applied
        self._gradient_norm = outcome.gradient_norm
        if outcome.applied:
            self._last_applied_step = step
            if self.lr_scheduler is not None:
                self.lr_scheduler.step()
        else:
            self.skipped_steps += 1
            self.last_overflow = OverflowFacts(
                step=step,
                loss_scale=scale_used,
                offenders=outcome.offenders,
                bad_losses=bad_losses(self._micro_batches.losses, self.global_rank),
            )
            self.observer.overflow_found(self.last_overflow)
        stuck: ScaleAtMinimumError | None = None
        try:
            self.loss_scaler.update(not outcome.applied)
        except ScaleAtMinimumError as error:
            stuck = error.blaming(self._culprit(outcome))
        losses = self._micro_batches.take_losses()
        loss = self.clock.bring_home(lambda: mean_of(losses))
        began_ns, wall_ns, phase_ns = self.clock.turn_over()
        self.observer.step_ended(
            StepFacts(
                step=step,
                applied=outcome.applied,
                skip_reason=None if outcome.applied else SkipReason.OVERFLOW,
                loss=loss,
                gradient_norm=outcome.gradient_norm,
                clip_coefficient=outcome.clip_coefficient,
                loss_scale_used=scale_used,
                loss_scale_next=self.loss_scaler.scale,
                hysteresis_left=self.loss_scaler.hysteresis_left,
                learning_rates=tuple(self.get_lr()),
                micro_batches=len(losses),
                began_ns=began_ns,
                wall_ns=wall_ns,
                phase_ns=phase_ns,
                offload=self.places.traffic.take(),
                recompute_ns=self._recomputation.take_spent_ns(),
                on_device=self.clock.take_on_device(),
            )
        )
        self._micro_batches.clear()
        self.global_steps += 1
        self._say_where()
        if stuck is not None:
            self.collectives.leave_last_words(f"stopped: {stuck}")
            raise stuck
        self.observer.step_began(self.global_steps)

    def _counters(self) -> Counters | None:
        if len(self._micro_batches):
            return None
        return Counters(
            global_steps=self.global_steps,
            skipped_steps=self.skipped_steps,
            micro_steps=self.micro_steps,
            last_applied_step=self._last_applied_step,
        )

    def _begin_at(self, counters: Counters) -> None:
        self.global_steps = counters.global_steps
        self.skipped_steps = counters.skipped_steps
        self.micro_steps = counters.micro_steps
        self._last_applied_step = counters.last_applied_step
        self._micro_batches.clear()
        self._backward_since_step = False
        self._say_where()
        self.observer.step_began(self.global_steps)

    def _culprit(self, outcome: Outcome) -> str:
        if not outcome.offenders:
            return "no gradient could be blamed"
        first = outcome.offenders[0]
        whom = "the sum over ranks" if first.rank is None else f"rank {first.rank}"
        return f"the first bad gradient is that of {first.name}: {first.kind} on {whom}"

    def _say_where(self) -> None:
        precision = self.config.precision.precision
        self.collectives.now(
            f"in step {self.global_steps}, stage {self.config.zero.stage}, {Precision(precision)}"
        )
