"""What optimizers keep for every element is known before their first step, and after it."""

import pytest
import torch
from torch.optim import SGD, Adagrad, Adam, AdamW, Optimizer, RMSprop

from engine.optimizers import Lion, flat_states


@pytest.mark.parametrize(
    ("kind", "settings", "names"),
    [
        (SGD, {}, []),
        (SGD, {"momentum": 0.9}, ["momentum_buffer"]),
        (Adagrad, {}, ["sum"]),
        (Adam, {"amsgrad": True}, ["exp_avg", "exp_avg_sq", "max_exp_avg_sq"]),
        (AdamW, {"capturable": False}, ["exp_avg", "exp_avg_sq"]),
        (RMSprop, {"centered": True}, ["square_avg", "grad_avg"]),
        (Lion, {}, ["exp_avg"]),
    ],
)
def test_states_of_every_element(
    kind: type[Optimizer], settings: dict[str, object], names: list[str]
) -> None:
    """Adagrad makes its states when it is made before torch 2.13, in its first step since."""
    parameters = [torch.nn.Parameter(torch.ones(2, 3)), torch.nn.Parameter(torch.ones(()))]
    optimizer = kind(parameters, lr=0.1, **settings)  # type: ignore[call-arg]
    assert flat_states(optimizer, 0) == names
    for parameter in parameters:
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    assert flat_states(optimizer, 0) == names
