"""Recording a training loop that is not the engine's: a model, an optimizer, perhaps torch.amp.

    watch = engine.watch(model, optimizer, scaler)
    for batch in batches:
        ...                  # forward, backward, scaler.step(optimizer), scaler.update()
        watch.step(loss)     # before the gradients are cleared

The loop stays as it is. Hooks of torch tell when forward and backward begin and end, and the facts
go to the same recorder as the engine's. What the loop alone could tell is not recorded: its
collectives, its gradients' norm before clipping, and how they fit into 16 bits.
"""

import os
import platform
from collections.abc import Callable
from contextlib import ExitStack
from functools import wraps
from typing import Any

import torch
from torch import Tensor
from torch.amp import GradScaler
from torch.autograd import Variable
from torch.nn import Module
from torch.optim import Optimizer

from engine.blame import bad_losses, describe_bad
from engine.device_time import clock_of
from engine.facts import BadTensor, Observer, OverflowFacts, StepFacts
from engine.first_bad import FirstBad
from engine.kept import KeptActivations
from engine.loaders import time_loaders
from engine.memory import Ledger, storage_bytes
from engine.nested import tensors_in
from engine.observer import Recorder
from engine.partition import Member
from engine.recording import Session, current
from engine.window import Profiler
from probe.record.rank import RankWriter
from probe.schema.documents import ModelFacts, RunConfig
from probe.schema.vocabulary import MemoryCategory, Phase, Precision, SkipReason, TensorRole

_PRECISIONS = {
    (torch.float32, None): Precision.FP32,
    (torch.float16, None): Precision.FP16,
    (torch.bfloat16, None): Precision.BF16,
    (torch.float32, torch.float16): Precision.AMP_FP16,
    (torch.float32, torch.bfloat16): Precision.AMP_BF16,
}
"""By the type of the weights, and that of autocast if forward runs under it."""


class Watch:
    """What `watch` returns; without `probe run` it does nothing."""

    def step(self, loss: Tensor) -> None:
        """One update is over, applied or skipped; call it before the gradients are cleared."""


def watch(model: Module, optimizer: Optimizer, scaler: GradScaler | None = None) -> Watch:
    """Record a loop of one's own, if this process records."""
    session = current()
    if session is None or session.writer is None:
        return Watch()
    return _RecordedLoop(model, optimizer, scaler, session, session.writer)


class _RecordedLoop(Watch):
    """Hooks around somebody's loop, and the facts that follow from them."""

    def __init__(
        self,
        model: Module,
        optimizer: Optimizer,
        scaler: GradScaler | None,
        session: Session,
        writer: RankWriter,
    ) -> None:
        self.module = model
        self.device = next((each.device for each in model.parameters()), torch.device("cpu"))
        self.clock = clock_of(self.device)
        self.kept = KeptActivations(model)
        self.global_rank = session.header.rank
        self.world_size = int(os.environ.get("WORLD_SIZE", "1"))
        self.segments = ()
        self.collectives = None
        self._optimizer = optimizer
        self._scaler = scaler
        self._scale = scaler.get_scale() if scaler is not None else 1.0
        self._step = 0
        self._micro_batches = 0
        self._in_backward = False
        self._described = False
        self._session, self._writer = session, writer
        self._members = [
            Member(name=name, parameter=parameter, index=index, group=0, shape=parameter.shape)
            for index, (name, parameter) in enumerate(model.named_parameters())
        ]
        self._trained = [each for each in self._members if each.parameter.requires_grad]
        self._first_bad = FirstBad(self._trained)
        self._first_bad.notes_sums = True
        self._observer: Observer = self._recorder()
        self._hook_forward()
        self._hook_update()
        time_loaders(self.clock)
        self._observer.step_began(0)
        self.clock.turn_over()

    def step(self, loss: Tensor) -> None:
        """Tell the step that is over, and begin the next."""
        scale_used = self._scale
        if self._scaler is not None:
            self._scale = self._scaler.get_scale()
        # Only a step that was skipped lowers the scale, whoever did the skipping.
        applied = self._scale >= scale_used
        self._observer.gradients_ready()
        if not applied:
            self._observer.overflow_found(
                OverflowFacts(
                    step=self._step,
                    loss_scale=scale_used,
                    offenders=tuple(self._bad_gradients()),
                    bad_losses=bad_losses([loss.detach()], self.global_rank),
                )
            )
        told_loss = self.clock.bring_home(loss.detach)
        began_ns, wall_ns, phase_ns = self.clock.turn_over()
        self._observer.step_ended(
            StepFacts(
                step=self._step,
                applied=applied,
                skip_reason=None if applied else SkipReason.OVERFLOW,
                loss=told_loss,
                gradient_norm=None,
                clip_coefficient=None,
                loss_scale_used=scale_used,
                loss_scale_next=self._scale,
                hysteresis_left=None,
                learning_rates=tuple(float(each["lr"]) for each in self._optimizer.param_groups),
                micro_batches=max(1, self._micro_batches),
                began_ns=began_ns,
                wall_ns=wall_ns,
                phase_ns=phase_ns,
                recompute_ns=0,
                on_device=self.clock.take_on_device(),
            )
        )
        self._step += 1
        self._micro_batches = 0
        self._observer.step_began(self._step)

    def ledger(self) -> Ledger:
        """Bytes of weights, gradients and optimizer states; no closed form is known."""
        weights = [member.parameter for member in self._members]
        held = {
            MemoryCategory.PARAMS: storage_bytes(weights),
            MemoryCategory.GRADS: storage_bytes(
                [weight.grad for weight in weights if weight.grad is not None]
            ),
            MemoryCategory.ACTIVATIONS: self.kept.device_bytes,
            MemoryCategory.OPTIMIZER_STATES: storage_bytes(
                [
                    tensor
                    for state in self._optimizer.state.values()
                    for tensor in tensors_in(dict(state))
                ]
            ),
        }
        return Ledger(held_bytes=held, predicted_bytes={})

    # - What torch tells

    def _hook_forward(self) -> None:
        spans: list[ExitStack] = []

        def begins(module: Module, args: tuple[Any, ...]) -> None:
            del module, args
            if not self._described:
                self._describe()
            span = ExitStack()
            span.enter_context(self.clock.phase(Phase.FORWARD))
            span.enter_context(self.kept.watching_forward())
            spans.append(span)

        def ends(module: Module, args: tuple[Any, ...], output: Any) -> None:
            del module, args
            spans.pop().close()
            for tensor in tensors_in(output):
                if tensor.requires_grad:
                    tensor.register_hook(self._backward_begins)  # type: ignore[no-untyped-call]

        self.module.register_forward_pre_hook(begins, prepend=True)
        self.module.register_forward_hook(ends, always_call=True)

    def _backward_begins(self, gradient: Tensor) -> None:
        """Called for each of the model's outputs; the first one to come counts."""
        del gradient
        if self._in_backward:
            return
        self._in_backward = True
        self.clock.claim(Phase.FORWARD)
        self._first_bad.begin(self._micro_batches)
        span = self.clock.phase(Phase.BACKWARD)
        span.__enter__()

        def ends() -> None:
            span.__exit__(None, None, None)
            self._first_bad.end()
            self.kept.forget()
            self._in_backward = False
            self._micro_batches += 1

        Variable._execution_engine.queue_callback(ends)

    def _hook_update(self) -> None:
        """Updates, and what the scaler does around them, are the optimizer's phase."""
        spans: list[Any] = []

        def begins(*_: Any) -> None:
            spans.append(self.clock.phase(Phase.OPTIMIZER))
            spans[-1].__enter__()

        def ends(*_: Any) -> None:
            spans.pop().__exit__(None, None, None)

        self._optimizer.register_step_pre_hook(begins)
        self._optimizer.register_step_post_hook(ends)
        for name in ("unscale_", "step", "update") if self._scaler is not None else ():
            setattr(self._scaler, name, self._in_update(getattr(self._scaler, name)))

    def _in_update(self, method: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(method)
        def timed(*args: Any, **kwargs: Any) -> Any:
            with self.clock.phase(Phase.OPTIMIZER):
                return method(*args, **kwargs)

        return timed

    # - What is told

    def _bad_gradients(self) -> list[BadTensor]:
        """Gradients that are no numbers, the first to come first."""
        place = {name: number for number, name in enumerate(self._first_bad.order)}
        micro_batches = self._first_bad.micro_batches()
        found = [
            describe_bad(
                member.parameter.grad,
                name=member.name,
                role=TensorRole.GRADIENT,
                rank=self.global_rank,
                micro_batch=micro_batches.get(member.name),
            )
            for member in sorted(self._trained, key=lambda each: place.get(each.name, len(place)))
            if member.parameter.grad is not None
        ]
        return [bad for bad in found if bad is not None]

    def _recorder(self) -> Recorder:
        window = self._session.handover.profile
        recorder = Recorder(
            self._session,
            self._writer,
            self,
            backend_op=lambda op: op,
            profiler=None
            if window is None
            else Profiler(
                window, rank=self.global_rank, folder=self._writer.folder, module=self.module
            ),
            numerics=None,
        )
        self._session.take_over(recorder.stand, self.clock)
        return recorder

    def _describe(self) -> None:
        """Say what is trained, once forward shows whether it runs under autocast."""
        self._described = True
        device, weights = self._members[0].parameter.device, self._members[0].parameter.dtype
        under_autocast = torch.is_autocast_enabled(device.type)
        narrow = torch.get_autocast_dtype(device.type) if under_autocast else None
        header = self._session.header
        self._session.header = type(header)(
            rank=header.rank,
            local_rank=header.local_rank,
            node=header.node,
            host=header.host,
            pid=header.pid,
            clock=header.clock,
            device=str(device),
            engine=f"torch {torch.__version__}",
            config=RunConfig(precision=_PRECISIONS.get((weights, narrow))),
            model=ModelFacts(
                name=type(self.module).__name__,
                param_elements=sum(member.elements for member in self._members),
                trainable_elements=sum(member.elements for member in self._trained),
                buffer_bytes=storage_bytes(list(self.module.buffers())),
            ),
            versions={"torch": str(torch.__version__), "python": platform.python_version()},
            seeds={"torch": torch.initial_seed() & (2**63 - 1)},
            parameters=[member.name for member in self._members],
        )
        self._writer.describe(self._session.header)
