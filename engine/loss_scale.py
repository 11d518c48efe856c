"""The loss scaler: a state machine over good and overflowed steps, without a tensor in sight.

The engine multiplies the loss by `scale`, divides the gradients by the value that was used in
backward, and then tells the scaler how the step went, once per optimizer step on every rank.
All ranks see the same answers, so all ranks hold the same scale without talking about it.
"""

from collections.abc import Mapping
from typing import Any

from engine.config.policies import AtMinimum, LossScalePolicy, PrecisionPolicy, ScaleRule
from probe.errors import ProbeError
from probe.schema.vocabulary import Precision

FACTOR = 2.0
"""Growth and backoff; a power of two, so scaling never rounds a gradient."""

SMALLEST_FLOAT32 = 2.0**-126
LARGEST_FLOAT32 = (2.0 - 2.0**-23) * 2.0**127
"""The normal range of the type that the scale is multiplied in."""

POSITION = ("scale", "hysteresis_left", "iteration", "last_overflow", "last_good")
"""All that distinguishes a scaler in the middle of a run from a new one."""

NEEDS_SCALING = frozenset({Precision.FP16, Precision.AMP_FP16})


class ScaleAtMinimumError(ProbeError):
    """The loss scale is at its minimum and the gradients still overflow: training has diverged."""

    def __init__(
        self, *, scale: float, step: int, last_good_step: int | None, culprit: str | None = None
    ) -> None:
        self.scale = scale
        self.step = step
        self.last_good_step = last_good_step
        self.culprit = culprit
        good = "no step was good" if last_good_step is None else f"last good step: {last_good_step}"
        found = "" if culprit is None else f" {culprit}."
        super().__init__(
            f"overflow at step {step} with the loss scale already at its minimum {scale:g}"
            f" ({good}).{found}"
            " Lower the learning rate, clip harder or train in bf16;"
            ' fp16.at_minimum = "clamp" goes on skipping instead of stopping.'
        )

    def blaming(self, culprit: str) -> "ScaleAtMinimumError":
        """The same error with what was found about the first bad tensor, as a clause."""
        return ScaleAtMinimumError(
            scale=self.scale,
            step=self.step,
            last_good_step=self.last_good_step,
            culprit=culprit,
        )


class LossScaler:
    """Moves one scale up and down by DeepSpeed's ZeRO rule or torch.amp.GradScaler's.

    ZERO: the first `hysteresis - 1` overflows are only counted, the next halves. The scale doubles
    after `window_steps` + 1 good steps in a row, then every `window_steps`; only a doubling refills
    the hysteresis, or any good step if `consecutive_hysteresis`.

    GRAD_SCALER: every overflow halves, every `window_steps` good steps in a row double. There is
    no minimum but the smallest float32.

    A static scale never moves; its overflows still skip the step.
    """

    def __init__(self, policy: LossScalePolicy) -> None:
        self.policy = policy
        self.scale = policy.static_scale or FACTOR**policy.initial_scale_power
        self.hysteresis_left = policy.hysteresis
        self.iteration = 0
        """Optimizer steps seen so far, which is also the index of the step to come."""
        self.last_overflow = -1
        """Of these, the index of the last that overflowed."""
        self.last_good: int | None = None

    @classmethod
    def of(cls, policy: PrecisionPolicy) -> "LossScaler":
        """The scaler of a precision: fixed at 1 unless gradients are fp16."""
        if policy.precision in NEEDS_SCALING:
            return cls(policy.loss_scale)
        return cls(LossScalePolicy(static_scale=1.0))

    @property
    def dynamic(self) -> bool:
        return self.policy.static_scale == 0

    @property
    def minimum(self) -> float:
        """The lowest scale that the rule goes down to."""
        if self.policy.rule is ScaleRule.GRAD_SCALER:
            return SMALLEST_FLOAT32
        return self.policy.minimum_scale

    def update(self, overflowed: bool) -> None:
        """Take note of one optimizer step; raise, with nothing changed, if there is no way down."""
        if overflowed:
            self._back_off()
            self.last_overflow = self.iteration
        else:
            self._grow()
            self.last_good = self.iteration
        self.iteration += 1

    def _back_off(self) -> None:
        if not self.dynamic:
            return
        if self.policy.rule is ScaleRule.ZERO and self.hysteresis_left > 1:
            self.hysteresis_left -= 1
            return
        if self.scale <= self.minimum and self.policy.at_minimum is AtMinimum.STOP:
            raise ScaleAtMinimumError(
                scale=self.scale, step=self.iteration, last_good_step=self.last_good
            )
        self.scale = max(self.scale / FACTOR, self.minimum)

    def _grow(self) -> None:
        if not self.dynamic:
            return
        if self.policy.consecutive_hysteresis:
            self.hysteresis_left = self.policy.hysteresis
        good_steps = self.iteration - self.last_overflow  # in a row, this one included
        if self.policy.rule is ScaleRule.ZERO:
            good_steps -= 1  # DeepSpeed counts the good steps *before* this one
        if good_steps > 0 and good_steps % self.policy.window_steps == 0:
            self.hysteresis_left = self.policy.hysteresis
            if self.scale * FACTOR <= LARGEST_FLOAT32:
                self.scale *= FACTOR

    def state_dict(self) -> dict[str, Any]:
        """The full position: a scaler that loads it goes on as this one would."""
        return {name: getattr(self, name) for name in POSITION}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take up a saved position; a scale that is static by policy stays as the policy says."""
        for name in POSITION:
            if name != "scale" or self.dynamic:
                setattr(self, name, state[name])
