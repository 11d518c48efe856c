"""Optimizer states follow what they belong to: from parameters to segments, segments to pieces."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from engine.segments import Segment


def take_over(optimizer: Optimizer, segment: Segment, whole_states: Mapping[Tensor, Any]) -> None:
    """States from before sharding: a resumed optimizer's, or Adagrad's first sums."""
    states = [(span, whole_states.get(span.member.parameter, {})) for span in segment.spans]
    if not states[0][1]:
        return
    state: dict[str, Any] = {}
    for key, first in states[0][1].items():
        if isinstance(first, Tensor) and first.shape == segment.spans[0].member.shape:
            flat = torch.zeros(segment.elements, dtype=first.dtype, device=segment.master.device)
            for span, each in states:
                size = span.stop - span.start
                part = each[key].view(-1)[span.offset : span.offset + size]
                flat[span.start : span.stop].copy_(part)
            state[key] = flat
        else:
            state[key] = first.clone() if isinstance(first, Tensor) else first
    optimizer.state[segment.master] = state


def inherit(optimizer: Optimizer, whole: Segment, piece: Segment, start: int) -> None:
    """A piece cut from a segment, from this position on, has its part of the states."""
    state = optimizer.state.get(whole.master)
    if not state:
        return
    optimizer.state[piece.master] = {
        key: (
            value[start : start + piece.elements]
            if isinstance(value, Tensor) and value.shape == whole.master.shape
            else value.clone()
            if isinstance(value, Tensor)
            else value
        )
        for key, value in state.items()
    }
