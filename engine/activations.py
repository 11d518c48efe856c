"""Watching what modules put out, in the step after an overflow.

Nothing is run again. The next step is run anyway, and while this watch is armed each module's
output is looked at as it passes; so an overflow that repeats itself names the module it began in.
The first module to finish with a bad output is the innermost and the earliest one.
"""

from typing import Any

import torch
from torch.nn import Module
from torch.utils.hooks import RemovableHandle

from engine.blame import describe_bad
from engine.facts import BadTensor
from engine.nested import tensors_in
from probe.schema.vocabulary import TensorRole


class ActivationWatch:
    """Forward hooks on all modules of a model, while they are wanted."""

    def __init__(self, root: Module, rank: int) -> None:
        self._root = root
        self._rank = rank
        self._handles: list[RemovableHandle] = []
        self._micro_batch = -1
        self._bad: dict[int, BadTensor] = {}

    @property
    def armed(self) -> bool:
        """Whether outputs are being looked at."""
        return bool(self._handles)

    def arm(self) -> None:
        """Look at every output from now on."""
        if self.armed:
            return
        for name, module in self._root.named_modules():
            self._handles.append(module.register_forward_hook(self._hook(name)))
        # In front of the rest: it counts the micro-batches.
        self._handles.append(
            self._root.register_forward_pre_hook(self._next_micro_batch, prepend=True)
        )

    def disarm(self) -> None:
        """Look at nothing any more."""
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        self.take()

    def take(self) -> list[BadTensor]:
        """The first bad output of each micro-batch since the last call."""
        found = [self._bad[number] for number in sorted(self._bad)]
        self._bad.clear()
        self._micro_batch = -1
        return found

    def _next_micro_batch(self, module: Module, args: tuple[Any, ...]) -> None:
        del args
        if module.training and torch.is_grad_enabled():
            self._micro_batch += 1

    def _hook(self, name: str) -> Any:
        def finished(module: Module, args: tuple[Any, ...], output: Any) -> None:
            del args
            if self._micro_batch in self._bad or not module.training:
                return
            for tensor in tensors_in(output):
                bad = describe_bad(
                    tensor.detach(),
                    name=name or type(module).__name__,
                    role=TensorRole.OUTPUT,
                    rank=self._rank,
                    micro_batch=max(self._micro_batch, 0),
                )
                if bad is not None:
                    self._bad[self._micro_batch] = bad
                    return

        return finished
