"""The optimizer's states of each segment, wherever they rest.

The optimizer sees every segment all the time, and a segment whose shelf is not in memory as a
stand-in. Around an update a few segments are brought: master, states and weights become tensors;
then they are put back, and only the counters stay.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from engine.optimizers import flat_states, steps_in_parts
from engine.segments import MASTER, Segment, absent
from engine.state_cutting import inherit, take_over
from engine.storage import Item, Places, Shard
from probe.errors import UsageError
from probe.schema.vocabulary import MemoryCategory

_PYTHON_NUMBERS: dict[type, torch.dtype] = {
    bool: torch.bool,
    int: torch.int64,
    float: torch.float64,
}


class States:
    """Masters and optimizer states, by segment."""

    def __init__(self, optimizer: Optimizer, places: Places, device: torch.device) -> None:
        self.optimizer = optimizer
        self._places = places
        self._device = device
        self._expected = [flat_states(optimizer, at) for at in range(len(self._groups))]
        """Names of the states that there will be, for each parameter group."""
        self._open: Shard | None = None
        """The slice of weights that is lent for the segments at hand."""
        in_memory = places.states.always_at_hand and places.params.always_at_hand
        if not in_memory and not steps_in_parts(optimizer):
            raise UsageError(
                f"optimizer {type(optimizer).__name__} may keep something between parameters, so"
                " it cannot be stepped in parts, as shards on disk need. Use Adam, AdamW, SGD,"
                " Adagrad or another of torch's element-wise ones, or offload to cpu."
            )

    def adopt(self, segments: Sequence[Segment]) -> None:
        """Let the optimizer work on these segments instead of what it was made for."""
        whole_states = dict(self.optimizer.state)
        self.optimizer.state.clear()
        emptied: Shard | None = None
        for segment in segments:
            first = segment.first_master
            if emptied is not None and first is not emptied:
                _drop(emptied)
            if whole_states:
                take_over(self.optimizer, segment, whole_states)
            if not self._places.states.always_at_hand:
                self._shelve(segment)
                emptied = first
        if emptied is not None:
            _drop(emptied)
        self.install(segments)

    def install(self, segments: Sequence[Segment]) -> None:
        """These segments are the optimizer's parameters now."""
        for number, group in enumerate(self._groups):
            group["params"] = [each.master for each in segments if each.group == number]

    @property
    def tensors(self) -> list[Tensor]:
        """The tensors that the optimizer holds in memory."""
        return [
            value
            for state in self.optimizer.state.values()
            for value in state.values()
            if isinstance(value, Tensor)
        ]

    # - Around an update

    def expect(self, segments: Sequence[Segment]) -> bool:
        """They will be brought soon; whether there was room to fetch all of them early."""
        for segment in segments:
            if segment.shelf is not None and not segment.shelf.expect():
                return False
            if segment.weights is not None and segment.weights is not self._open:
                segment.weights.expect()
        return True

    def bring(self, segments: Sequence[Segment]) -> None:
        """Make master, states and weights of these segments tensors."""
        for segment in segments:
            if segment.at_hand and segment.shelf is None and self._rests_in_memory(segment):
                continue
            if segment.shelf is not None:
                for name, tensor in segment.shelf.take().items():
                    if name == MASTER:
                        segment.master.data = tensor
                    else:
                        self.optimizer.state[segment.master][name] = tensor
            if segment.weights is not None and not segment.weights.always_at_hand:
                self._lend_weights(segment, segment.weights)

    def put_back(self, segments: Sequence[Segment]) -> None:
        """Let these segments, changed, rest again."""
        for segment in segments:
            if segment.shelf is not None:
                state = self.optimizer.state[segment.master]
                flat = {name: state.pop(name) for name in self._flat_names(segment)}
                if segment.has_master:
                    flat = {MASTER: segment.master.data, **flat}
                segment.shelf.give(flat)
                if segment.has_master:
                    segment.master.data = absent(segment.elements, torch.float32)
            if segment.weights is not None and not segment.weights.always_at_hand:
                if segment.target is None:
                    segment.master.data = absent(segment.elements, torch.float32)
                else:
                    segment.target = absent(segment.elements, segment.target.dtype)

    def settle(self) -> None:
        """No segment is at hand any more."""
        if self._open is not None:
            self._open.close(changed=True)
            self._open = None

    # - One state at a time

    def names(self, segment: Segment) -> list[str]:
        """What `read` can tell of a segment, masters first."""
        state = self.optimizer.state.get(segment.master, {})
        known = [MASTER, *(name for name, value in state.items() if value is not None)]
        if segment.shelf is not None:
            known += [name for name in segment.shelf.take() if name not in known]
            segment.shelf.leave()
        return known

    def read(self, segment: Segment, name: str) -> Tensor:
        """A copy of one state in host memory: 1-D, or 0-d for a mere number.

        A number of Python's comes as int64, float64 or bool, which no torch optimizer uses for one.
        """
        self.bring([segment])
        state = self.optimizer.state.get(segment.master, {})
        value = segment.master.data if name == MASTER else state[name]
        if isinstance(value, bool | int | float):
            value = torch.tensor(value, dtype=_PYTHON_NUMBERS[type(value)])
        if not isinstance(value, Tensor) or (value.dim() and value.shape != segment.master.shape):
            raise UsageError(
                f"{type(self.optimizer).__name__} keeps {name!r} as {type(value).__name__}, which"
                " belongs to no element of a parameter, so it cannot be saved"
            )
        value = value.detach().to("cpu", copy=True)
        self._leave(segment)
        return value

    @torch.no_grad()
    def write(self, segment: Segment, name: str, value: Tensor) -> None:
        """Put in the place of a state what `read` gave; 16-bit weights follow their master."""
        self.bring([segment])
        if name == MASTER:
            segment.master.data.copy_(value)
            if segment.target is not None:
                segment.target.copy_(segment.master.data)
        else:
            state = self.optimizer.state[segment.master]
            if value.dim():
                state[name] = value.to(segment.master.device, copy=True)
            elif value.dtype in _PYTHON_NUMBERS.values():
                state[name] = value.item()
            else:
                group = self._groups[segment.group]
                on_device = group.get("fused") or group.get("capturable")
                state[name] = value.to(segment.master.device if on_device else "cpu", copy=True)
        self.put_back([segment])
        self.settle()

    def forget(self, segments: Sequence[Segment]) -> None:
        """The optimizer is as new; the masters of these segments, which are all, stay."""
        for segment in segments:
            if segment.shelf is None:
                continue
            self.bring([segment])
            self.optimizer.state[segment.master] = {}
            self.put_back([segment])
        self.settle()
        self.optimizer.state.clear()

    def split(self, segment: Segment, cuts: Sequence[int]) -> list[Segment]:
        """The pieces of a segment between these positions, with their states."""
        self.bring([segment])
        pieces = [
            segment.cut(start, stop)
            for start, stop in zip(cuts, [*cuts[1:], segment.elements], strict=True)
        ]
        for piece, start in zip(pieces, cuts, strict=True):
            inherit(self.optimizer, segment, piece, start)
        self.optimizer.state.pop(segment.master, None)
        if segment.shelf is not None:
            for piece in pieces:
                self._shelve(piece)
            segment.shelf.drop()
        elif not self._rests_in_memory(segment):
            self.put_back(pieces)
        self.settle()
        return pieces

    # - How

    @property
    def _groups(self) -> list[dict[str, Any]]:
        groups: list[dict[str, Any]] = self.optimizer.param_groups
        return groups

    def _flat_names(self, segment: Segment) -> list[str]:
        state = self.optimizer.state.get(segment.master, {})
        return [
            name
            for name, value in state.items()
            if isinstance(value, Tensor) and value.dim() and value.numel() == segment.elements
        ]

    def _rests_in_memory(self, segment: Segment) -> bool:
        return segment.weights is None or segment.weights.always_at_hand

    def _lend_weights(self, segment: Segment, weights: Shard) -> None:
        if self._open is not weights:
            self.settle()
            self._open = weights
        mine = slice(segment.start, segment.start + segment.elements)
        lent = weights.open(self._device)[mine]
        if segment.target is None:
            segment.master.data = lent
        else:
            segment.target = lent

    def _leave(self, segment: Segment) -> None:
        """Let a segment, unchanged, rest again."""
        if segment.shelf is not None:
            for name in segment.shelf.take():
                if name == MASTER:
                    segment.master.data = absent(segment.elements, torch.float32)
                else:
                    del self.optimizer.state[segment.master][name]
            segment.shelf.leave()
        if self._open is not None:
            if segment.target is None:
                segment.master.data = absent(segment.elements, torch.float32)
            else:
                segment.target = absent(segment.elements, segment.target.dtype)
            self._open.close()
            self._open = None

    def _shelve(self, segment: Segment) -> None:
        """Give a segment a shelf of its own, and put there what it has."""
        state = self.optimizer.state.get(segment.master, {})
        items = {
            name: Item(
                elements=segment.elements,
                dtype=state[name].dtype if name in state else torch.float32,
                category=MemoryCategory.OPTIMIZER_STATES,
            )
            for name in self._expected[segment.group]
        }
        content: dict[str, Tensor] = {
            name: state.pop(name) for name in self._flat_names(segment) if name in items
        }
        if segment.has_master:
            values = segment.master.data
            if segment.first_master is not None:
                mine = slice(segment.start, segment.start + segment.elements)
                values = segment.first_master.open(torch.device("cpu"))[mine]
                segment.first_master = None
            content = {MASTER: values, **content}
            master = Item(
                elements=segment.elements,
                dtype=torch.float32,
                category=MemoryCategory.MASTER_PARAMS,
            )
            items = {MASTER: master, **items}
        span = segment.spans[0].member.name
        segment.shelf = self._places.states.shelf(f"the states of {span}", items)
        segment.at_hand = False
        if content:
            segment.shelf.give(content)
        if segment.has_master:
            segment.master.data = absent(segment.elements, torch.float32)


def _drop(shard: Shard) -> None:
    """The segments cut from it have shelves of their own."""
    shard.close()
    shard.drop()
