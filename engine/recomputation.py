"""Blocks that forget their activations in forward and compute them again in backward.

Which blocks there are is the same question as what stage 3 gathers together (`units.py`). A chosen
block gets a `forward` of its own, so its parameters keep their names, its hooks run once, and a
copy of the model is a model of its own. The second forward draws the same random numbers, runs
under the same autocast and leaves buffers (BatchNorm's averages) alone: all bits are those of a run
without. Only what enters a block is kept, on the host if one likes.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module
from torch.utils.checkpoint import checkpoint

from engine.config.policies import ActivationPolicy
from engine.kept import KeptActivations
from engine.saved_on_host import SavedOnHost
from engine.tracing import PhaseClock
from engine.units import repeated_blocks
from probe.errors import UsageError
from probe.schema.vocabulary import Phase


class Recomputation:
    """The blocks of one model that are computed twice, and how long that takes."""

    def __init__(
        self,
        root: Module,
        policy: ActivationPolicy,
        *,
        clock: PhaseClock,
        kept: KeptActivations,
        device: torch.device,
    ) -> None:
        self._clock = clock
        self._kept = kept
        self._host = SavedOnHost(device, kept) if policy.offload_to_host else None
        self._spent_ns = 0
        self.blocks: list[str] = []
        """Names of the chosen ones."""
        every = policy.every_block
        if every == 0:
            return
        found = repeated_blocks(root)
        if len(found) < every:
            raise UsageError(
                f"activation_checkpointing.every_block {every} chooses none of the {len(found)}"
                f" repeated blocks of {type(root).__name__}; set it to 0, or call"
                " torch.utils.checkpoint in the model"
            )
        for number, (name, block) in enumerate(found, start=1):
            if number % every == 0:
                self.blocks.append(name)
                block.forward = ForwardTwice(block, self, comes_last=number == len(found))

    def take_spent_ns(self) -> int:
        """Time of second forwards since the last call, waits for gathers left out."""
        spent_ns, self._spent_ns = self._spent_ns, 0
        return spent_ns

    def run(self, forward: "ForwardTwice", args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """One forward of a block, which backward will repeat."""
        if not torch.is_grad_enabled():
            return forward.once(*args, **kwargs)
        if self._kept.armed and forward.comes_last:
            # Its second forward would come first in backward, when all others' inputs are still
            # kept. To keep it whole shows the most that a step holds, and changes no bit of it.
            return forward.once(*args, **kwargs)
        unnamed, names = len(args), tuple(kwargs)

        def body(*values: Any) -> Any:
            # Nothing that enters is held by this function: it lives until backward.
            named = dict(zip(names, values[unnamed:], strict=True))
            return forward.once(*values[:unnamed], **named)

        values = (*args, *kwargs.values())
        with self._watching(values):
            return checkpoint(
                body,
                *values,
                use_reentrant=False,
                context_fn=lambda: (nullcontext(), self._again(forward)),
            )

    def _watching(self, values: tuple[Any, ...]) -> AbstractContextManager[Any]:
        return nullcontext() if self._host is None else self._host.taking(values)

    @contextmanager
    def _again(self, forward: "ForwardTwice") -> Iterator[None]:
        began_ns = self._clock.spent_ns(Phase.BACKWARD)
        self._clock.computes_again = True
        try:
            with forward.buffers_spared():
                yield
        finally:
            self._spent_ns += self._clock.spent_ns(Phase.BACKWARD) - began_ns
            self._clock.computes_again = False

    def __deepcopy__(self, memo: dict[int, Any]) -> "Recomputation":
        # A copied model is another model under the same regime.
        return self


class ForwardTwice:
    """The forward of one block, in its place on the instance."""

    def __init__(self, block: Module, regime: Recomputation, *, comes_last: bool) -> None:
        self.once: Callable[..., Any] = block.forward
        self.comes_last = comes_last
        self._block = block
        self._regime = regime

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._regime.run(self, args, kwargs)

    @contextmanager
    def buffers_spared(self) -> Iterator[None]:
        """What a second forward writes to buffers goes nowhere."""
        before: list[tuple[dict[str, Tensor | None], str, Tensor]] = []
        for module in self._block.modules():
            for name, buffer in module._buffers.items():
                if buffer is not None:
                    before.append((module._buffers, name, buffer))
        for owner, name, buffer in before:
            owner[name] = buffer.clone()
        try:
            yield
        finally:
            for owner, name, buffer in before:
                owner[name] = buffer
