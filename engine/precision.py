"""What is cast where: weights, inputs and the arithmetic of forward.

| precision          | weights | masters | forward computes in      |
|--------------------|---------|---------|--------------------------|
| fp32               | fp32    | –       | fp32                     |
| bf16, fp16         | 16 bits | fp32    | the weights' type        |
| amp_bf16, amp_fp16 | fp32    | –       | autocast, op by op       |
"""

from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module

from probe.schema.vocabulary import Precision

_WEIGHTS = {Precision.FP16: torch.float16, Precision.BF16: torch.bfloat16}
_AUTOCAST = {Precision.AMP_FP16: torch.float16, Precision.AMP_BF16: torch.bfloat16}
_BY_NAME = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}


def weight_dtype(precision: Precision) -> torch.dtype:
    """What the weights, hence the gradients, are stored in."""
    return _WEIGHTS.get(precision, torch.float32)


def compute_dtype(precision: Precision) -> torch.dtype:
    """What matrix products run in."""
    return _AUTOCAST.get(precision, weight_dtype(precision))


def dtype_named(name: str) -> torch.dtype:
    """The torch type of a configuration's word for it."""
    return _BY_NAME[name]


@cache
def word_of(dtype: torch.dtype) -> str:
    """What a type is called in configurations and records; torch's own word where there is none."""
    words = {named: word for word, named in _BY_NAME.items()}
    return words.get(dtype, str(dtype).removeprefix("torch."))


def scales_loss(precision: Precision) -> bool:
    """Only fp16 has so few exponent bits that gradients vanish without a scale."""
    return precision in (Precision.FP16, Precision.AMP_FP16)


def autocast(precision: Precision, device: torch.device) -> AbstractContextManager[Any]:
    """The context that forward runs in."""
    if precision in _AUTOCAST:
        return torch.autocast(device.type, dtype=_AUTOCAST[precision])
    return nullcontext()


def cast_buffers(module: Module, precision: Precision, device: torch.device) -> None:
    """Move buffers to the device; floating ones take the type that the model computes in."""
    for owner in module.modules():
        for name, buffer in owner._buffers.items():
            if buffer is not None:
                dtype = weight_dtype(precision) if buffer.is_floating_point() else buffer.dtype
                owner._buffers[name] = buffer.to(device=device, dtype=dtype)


def cast_inputs(thing: Any, precision: Precision) -> Any:
    """Floating tensors among the arguments in the weights' type; everything else as it is."""
    if precision not in _WEIGHTS:
        return thing
    if isinstance(thing, Tensor):
        return thing.to(_WEIGHTS[precision]) if thing.is_floating_point() else thing
    if isinstance(thing, dict):
        return {key: cast_inputs(value, precision) for key, value in thing.items()}
    if type(thing) in (list, tuple):
        return type(thing)(cast_inputs(value, precision) for value in thing)
    return thing
