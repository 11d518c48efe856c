"""What a step consumed: samples and tokens, told by the shapes of what the model is called with.

The first tensor among the inputs tells the samples by its first dimension. Tokens are known where
that tensor holds integers in rows, as the tokens of a text do; a script that knows better says so
by `engine.log(tokens=...)`.
"""

from typing import Any

import torch
from torch.nn import Module

from engine.nested import tensors_in

_TOKEN_ARGUMENT = "input_ids"


class Intake:
    """Counts what the model takes in while it trains."""

    def __init__(self, module: Module) -> None:
        self._samples: int | None = None
        self._tokens: int | None = None
        module.register_forward_pre_hook(self._sees, with_kwargs=True)

    def take(self) -> tuple[int | None, int | None]:
        """Samples and tokens since the last call; None where no shape told."""
        taken = self._samples, self._tokens
        self._samples = self._tokens = None
        return taken

    def _sees(self, module: Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if not (module.training and torch.is_grad_enabled()):
            return
        named = kwargs.get(_TOKEN_ARGUMENT)
        tensor = next(tensors_in((args, kwargs)) if named is None else tensors_in(named), None)
        if tensor is None or tensor.dim() == 0:
            return
        self._samples = (self._samples or 0) + tensor.shape[0]
        if tensor.dim() == 2 and not tensor.is_floating_point():
            self._tokens = (self._tokens or 0) + tensor.numel()
