"""Models larger than a rank's memory: parameters that are slices from the moment they are made.

Inside `sharded_init()` a parameter is whole while it is being worked on and a slice soon after.
Whatever touches it again (an initialiser, `.shape`, `.data`) makes it whole first, so any way of
initialising works; the least recently touched ones are sliced when more than `open_elements` are
whole. A model on the meta device works too: its modules are filled one by one when the engine
shards them.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module, Parameter
from torch.nn.modules.module import register_module_parameter_registration_hook
from torch.overrides import TorchFunctionMode

from engine.collectives import Collectives, meet
from engine.facts import Silence
from engine.tracing import PhaseClock
from probe.errors import UsageError

OPEN_ELEMENTS = 50_000_000
_ATTRIBUTE = "_engine_absent"


@dataclass(kw_only=True, eq=False)
class Absent:
    """What stands in for a parameter whose values are not in it."""

    shape: torch.Size
    fetch: Callable[[], Tensor]
    """Its whole value; every rank must ask."""
    collectives: Collectives | None = None


@contextmanager
def sharded_init(*, open_elements: int = OPEN_ELEMENTS) -> Iterator[None]:
    """Parameters of modules made inside are kept as slices, one a rank; for stage 3."""
    meeting = meet()
    collectives = Collectives(meeting, clock=PhaseClock(), observer=Silence())
    slicing = _Slicing(collectives, open_elements)
    handle = register_module_parameter_registration_hook(slicing.registered)
    try:
        with slicing:
            yield
    finally:
        handle.remove()
        with torch._C.DisableTorchFunction():
            slicing.close_all()


def whole_shape(parameter: Parameter) -> torch.Size:
    """The shape of the whole parameter, wherever its values are."""
    absent = getattr(parameter, _ATTRIBUTE, None)
    return parameter.shape if absent is None else absent.shape


def whole_value(parameter: Parameter) -> Tensor:
    """The values of the whole parameter; it is no longer absent after this."""
    absent = getattr(parameter, _ATTRIBUTE, None)
    if absent is None:
        return parameter.detach()
    value: Tensor = absent.fetch()
    delattr(parameter, _ATTRIBUTE)
    return value


def collectives_of(module: Module) -> Collectives | None:
    """The collectives that a model was sharded with while it was made."""
    for parameter in module.parameters():
        absent = getattr(parameter, _ATTRIBUTE, None)
        if absent is not None and absent.collectives is not None:
            found: Collectives = absent.collectives
            return found
    return None


def leave_meta_device(root: Module, device: torch.device) -> dict[Parameter, Parameter]:
    """Replace parameters on the meta device by absent ones that their modules can fill later."""
    replaced: dict[Parameter, Parameter] = {}
    for name, module in root.named_modules():
        mine = {key: p for key, p in module._parameters.items() if p is not None and p.is_meta}
        if any(p not in replaced for p in mine.values()) and not _filler(root, module):
            raise UsageError(
                f"{name or 'the model'} ({type(module).__name__}) is on the meta device and has no"
                " reset_parameters(), so its parameters cannot be given values. Add that method, or"
                " make the model inside engine.sharded_init() instead of on the meta device."
            )
        filling = _Filling(root, module, device)
        for key, parameter in mine.items():
            if parameter not in replaced:
                stand_in = Parameter(
                    torch.empty(0, dtype=parameter.dtype, device=device),
                    requires_grad=parameter.requires_grad,
                )
                filling.shapes[key] = parameter.shape
                setattr(
                    stand_in,
                    _ATTRIBUTE,
                    Absent(shape=parameter.shape, fetch=lambda f=filling, k=key: f.value(k)),  # type: ignore[misc]
                )
                replaced[parameter] = stand_in
            module._parameters[key] = replaced[parameter]
        for key, buffer in module._buffers.items():
            if buffer is not None and buffer.is_meta:
                module._buffers[key] = torch.zeros_like(buffer, device=device)
    return replaced


class _Filling:
    """One module's own way to give its parameters values, run once for all of them."""

    def __init__(self, root: Module, module: Module, device: torch.device) -> None:
        self._root = root
        self._module = module
        self._device = device
        self._values: dict[str, Tensor] | None = None
        self.shapes: dict[str, torch.Size] = {}

    def value(self, key: str) -> Tensor:
        if self._values is None:
            own = {name: self._module._parameters[name] for name in self.shapes}
            for name, parameter in own.items():
                assert parameter is not None, "it was just replaced"
                parameter.data = torch.empty(
                    self.shapes[name], dtype=parameter.dtype, device=self._device
                )
            fill = _filler(self._root, self._module)
            assert fill is not None, "asked for before"
            fill()
            self._values = {}
            for name, parameter in own.items():
                assert parameter is not None, "it was just replaced"
                self._values[name] = parameter.data
                parameter.data = parameter.data.new_empty(0)
        return self._values.pop(key)


def _filler(root: Module, module: Module) -> Callable[[], object] | None:
    reset = getattr(module, "reset_parameters", None)
    if reset is not None:
        return reset  # type: ignore[no-any-return]
    initialise = getattr(root, "_init_weights", None)
    return None if initialise is None else lambda: initialise(module)


class _Slicing(TorchFunctionMode):
    """Opens parameters when they are touched, closes them when too many are open."""

    def __init__(self, collectives: Collectives, open_elements: int) -> None:
        super().__init__()
        self._collectives = collectives
        self._limit = open_elements
        self._open: OrderedDict[int, Parameter] = OrderedDict()
        self._made = 0

    def registered(self, module: Module, name: str, parameter: Parameter | None) -> None:
        del module, name
        if parameter is None or hasattr(parameter, _ATTRIBUTE) or id(parameter) in self._open:
            return
        self._open[id(parameter)] = parameter
        with torch._C.DisableTorchFunction():
            self._make_room({id(parameter)})

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        del types
        touched = {
            id(each): each
            for each in (*args, *(kwargs or {}).values())
            if isinstance(each, Parameter)
        }
        with torch._C.DisableTorchFunction():
            for parameter in touched.values():
                if hasattr(parameter, _ATTRIBUTE):
                    parameter.data = whole_value(parameter)
                    self._open[id(parameter)] = parameter
                elif id(parameter) in self._open:
                    self._open.move_to_end(id(parameter))
            self._make_room(set(touched))
        return func(*args, **(kwargs or {}))

    def close_all(self) -> None:
        for parameter in self._open.values():
            self._close(parameter)
        self._open.clear()

    def _make_room(self, in_use: set[int]) -> None:
        whole = sum(parameter.numel() for parameter in self._open.values())
        for key in list(self._open):
            if whole <= self._limit:
                return
            if key not in in_use:
                parameter = self._open.pop(key)
                whole -= parameter.numel()
                self._close(parameter)

    def _close(self, parameter: Parameter) -> None:
        collectives, shape, dtype = self._collectives, parameter.shape, parameter.dtype
        slice_elements = -(-parameter.numel() // collectives.world)
        start = min(collectives.rank * slice_elements, parameter.numel())
        part = parameter.detach().reshape(-1)[start : start + slice_elements]
        own = part.new_zeros(slice_elements)
        own[: part.numel()].copy_(part)
        self._made += 1
        block = f"parameter {self._made} in sharded_init"

        def fetch() -> Tensor:
            full = torch.empty(slice_elements * collectives.world, dtype=dtype, device=own.device)
            collectives.all_gather(full, own, block=block).wait()
            return full[: shape.numel()].view(shape)

        parameter.data = own.new_empty(0)
        setattr(parameter, _ATTRIBUTE, Absent(shape=shape, fetch=fetch, collectives=collectives))
