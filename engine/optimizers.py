"""Which optimizers can be sharded, and those that a configuration asks for by name.

A rank updates its slice of the weights without seeing the others. That is right when the update of
an element depends on that element alone: Adam, SGD, Adagrad, Lion and most others. It is wrong
where a tensor's norm (LAMB, LARS), its rows and columns (Adafactor, Shampoo, SOAP) or its singular
vectors (Muon) enter; those are refused with the reason. An optimizer nobody has heard of is tried
on a small matrix, whole and in two halves.
"""

import copy
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter
from torch.optim import Optimizer

from engine.config.policies import OptimizerPolicy
from engine.failures import OptimizerNotElementwiseError
from probe.errors import UsageError

_ELEMENTWISE: tuple[type[Optimizer], ...] = (
    torch.optim.Adam,
    torch.optim.AdamW,
    torch.optim.SGD,
    torch.optim.Adagrad,
    torch.optim.RMSprop,
    torch.optim.Adadelta,
    torch.optim.Adamax,
    torch.optim.NAdam,
    torch.optim.RAdam,
    torch.optim.ASGD,
    torch.optim.Rprop,
)
_FUSED_ON_CPU = (torch.optim.Adam, torch.optim.AdamW, torch.optim.SGD, torch.optim.Adagrad)
_REASONS = {
    "lamb": "scales the update of a whole tensor by the ratio of its norms",
    "lars": "scales the update of a whole tensor by the ratio of its norms",
    "muon": "orthogonalises the update of a whole matrix",
    "shampoo": "preconditions a matrix by statistics of its rows and columns",
    "soap": "preconditions a matrix by statistics of its rows and columns",
    "adafactor": "keeps second moments of whole rows and columns",
    "lbfgs": "searches along a line through all parameters and evaluates the loss again",
    "sparseadam": "updates only the rows that a sparse gradient names",
}


class Lion(Optimizer):
    """Evolved sign momentum: the sign of a mix of momentum and gradient, with decoupled decay."""

    def __init__(
        self,
        params: Iterable[Parameter] | Iterable[dict[str, Any]],
        lr: float = 1e-4,
        betas: tuple[float, float] = (0.9, 0.99),
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(params, {"lr": lr, "betas": betas, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """One update of every parameter that has a gradient."""
        loss = closure() if closure is not None else None
        for group in self.param_groups:
            early, late = group["betas"]
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                state = self.state[parameter]
                if not state:
                    state["exp_avg"] = torch.zeros_like(parameter)
                momentum: Tensor = state["exp_avg"]
                parameter.mul_(1 - group["lr"] * group["weight_decay"])
                direction = torch.lerp(parameter.grad, momentum, early).sign_()
                parameter.add_(direction, alpha=-group["lr"])
                momentum.lerp_(parameter.grad, 1 - late)
        return loss


_BY_NAME: dict[str, type[Optimizer]] = {
    "adam": torch.optim.Adam,
    "adamw": torch.optim.AdamW,
    "sgd": torch.optim.SGD,
    "adagrad": torch.optim.Adagrad,
    "lion": Lion,
}


def build_optimizer(
    policy: OptimizerPolicy, groups: Iterable[Parameter] | Iterable[dict[str, Any]]
) -> Optimizer:
    """The optimizer of a configuration."""
    name = policy.type.lower()
    if name in _REASONS:
        raise _refusal(policy.type, _REASONS[name])
    if name not in _BY_NAME:
        raise UsageError(
            f"optimizer {policy.type!r} is not known by name; known are Adam, AdamW, SGD, Adagrad"
            " and Lion. Any other element-wise torch optimizer can be passed as an object."
        )
    params = {k: tuple(v) if k == "betas" else v for k, v in policy.params.items()}
    return _BY_NAME[name](groups, **params)  # type: ignore[arg-type]


def require_elementwise(optimizer: Optimizer) -> None:
    """Refuse an optimizer that cannot update slices, with the reason."""
    kind = type(optimizer)
    if kind in _ELEMENTWISE or kind is Lion:
        return
    for ancestor in kind.__mro__:
        reason = _REASONS.get(ancestor.__name__.lower())
        if reason is not None:
            raise _refusal(kind.__name__, reason)
    try:
        whole, halves = _try_out(optimizer, split=False), _try_out(optimizer, split=True)
    except Exception as error:
        raise _refusal(kind.__name__, f"could not be tried on a small matrix ({error})") from error
    if not torch.allclose(whole, halves, rtol=1e-5, atol=1e-7):
        raise _refusal(kind.__name__, "gives another result for a matrix than for its two halves")


def steps_in_parts(optimizer: Optimizer) -> bool:
    """Whether several `step` calls, each with some gradients, equal one with all."""
    return type(optimizer) in _ELEMENTWISE or type(optimizer) is Lion


def flat_states(optimizer: Optimizer, group: int) -> list[str]:
    """Names of the tensors that it keeps for every element of a group's parameters."""
    if not steps_in_parts(optimizer):
        return []
    # A resumed optimizer has them, and Adagrad makes them at once before torch 2.13.
    held = [optimizer.state.get(each, {}) for each in optimizer.param_groups[group]["params"]]
    if any(held):
        return list(
            dict.fromkeys(
                name
                for state in held
                for name, value in state.items()
                if isinstance(value, Tensor) and value.dim() > 0
            )
        )
    parameter = Parameter(torch.zeros(2))
    parameter.grad = torch.zeros(2)
    trial = copy.copy(optimizer)
    trial.state = defaultdict(dict)
    settings = {k: v for k, v in optimizer.param_groups[group].items() if k != "params"}
    trial.param_groups = [{**settings, "params": [parameter]}]
    trial.step()
    return [
        name
        for name, value in trial.state[parameter].items()
        if isinstance(value, Tensor) and value.shape == parameter.shape
    ]


def prefer_fused(optimizer: Optimizer) -> None:
    """One pass over memory instead of a dozen, where torch offers it and the user left it open."""
    if type(optimizer) not in _FUSED_ON_CPU:
        return
    for group in optimizer.param_groups:
        if group.get("fused") is None and not group.get("foreach") and not group.get("capturable"):
            group["fused"] = not group.get("differentiable", False)


def _try_out(optimizer: Optimizer, *, split: bool) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    values = torch.randn(4, 6, generator=generator)
    gradients = [torch.randn(4, 6, generator=generator) for _ in range(3)]
    pieces = [values.view(-1)[:10].clone(), values.view(-1)[10:].clone()] if split else [values]
    parameters = [Parameter(piece) for piece in pieces]
    trial = copy.copy(optimizer)
    trial.state = defaultdict(dict)
    settings = {k: v for k, v in optimizer.param_groups[0].items() if k != "params"}
    trial.param_groups = [{**settings, "params": parameters}]
    for gradient in gradients:
        flat = gradient.view(-1)
        parts = [flat[:10], flat[10:]] if split else [gradient]
        for parameter, part in zip(parameters, parts, strict=True):
            parameter.grad = part.clone()
        trial.step()
    return torch.cat([parameter.detach().view(-1) for parameter in parameters])


def _refusal(name: str, reason: str) -> OptimizerNotElementwiseError:
    return OptimizerNotElementwiseError(
        f"optimizer {name} {reason}, so a rank cannot update its slice of the weights alone. Use an"
        " element-wise one: Adam, AdamW, SGD, Adagrad, Lion, RMSprop, ..."
    )
