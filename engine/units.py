"""Which parameters are gathered together in stage 3: blocks, not layers.

A gather that is too small costs its latency, one that is too large costs its memory. A unit is one
of several like-named neighbours with an inside (a transformer block), or else the parameters that
belong directly to one module. A block that holds more than a quarter of the model and is itself
made of repeated blocks is opened: its inner blocks are the units.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from torch.nn import Module, Parameter

OPEN_ABOVE_SHARE = 0.25


@dataclass(frozen=True, kw_only=True, eq=False)
class UnitPlan:
    """Parameters that travel together, and the modules whose forward needs them."""

    name: str
    parameters: tuple[Parameter, ...]
    users: tuple[Module, ...]


def plan_units(root: Module) -> list[UnitPlan]:
    """Every parameter in exactly one unit, in model order; a tied parameter with its first user."""
    total = sum(parameter.numel() for parameter in root.parameters())
    seats = list(_seats(root, "", total))
    owner: dict[Parameter, int] = {}
    for number, seat in enumerate(seats):
        for parameter in seat.parameters:
            owner.setdefault(parameter, number)
    plans = []
    for number, seat in enumerate(seats):
        own = tuple(dict.fromkeys(p for p in seat.parameters if owner[p] == number))
        if own:
            held = set(own)
            users = tuple(each.module for each in seats if held.intersection(each.parameters))
            plans.append(UnitPlan(name=seat.name or "model", parameters=own, users=users))
    return plans


def repeated_blocks(root: Module) -> list[tuple[str, Module]]:
    """The blocks among the units, in model order; none where a model does not repeat itself."""
    total = sum(parameter.numel() for parameter in root.parameters())
    return [(seat.name, seat.module) for seat in _seats(root, "", total) if seat.is_block]


@dataclass(frozen=True, kw_only=True, eq=False)
class _Seat:
    """A module whose forward is where a gather happens, with the parameters that it needs."""

    name: str
    module: Module
    parameters: tuple[Parameter, ...]
    is_block: bool = False


def _seats(module: Module, name: str, total: int) -> Iterator[_Seat]:
    direct = tuple(p for p in module._parameters.values() if p is not None)
    if direct:
        yield _Seat(name=name, module=module, parameters=direct)
    kinds = Counter(type(child) for child in module.children())
    for child_name, child in module.named_children():
        path = f"{name}.{child_name}" if name else child_name
        repeated = kinds[type(child)] > 1
        if repeated and _has_inside(child) and not _is_large_stack(child, total):
            whole = tuple(child.parameters())
            yield _Seat(name=path, module=child, parameters=whole, is_block=True)
        else:
            yield from _seats(child, path, total)


def _has_inside(module: Module) -> bool:
    return any(next(child.parameters(), None) is not None for child in module.children())


def _is_large_stack(module: Module, total: int) -> bool:
    share = sum(parameter.numel() for parameter in module.parameters())
    if share <= OPEN_ABOVE_SHARE * total:
        return False
    return any(
        count > 1 and any(_has_inside(child) for child in inner.children() if type(child) is kind)
        for inner in module.modules()
        for kind, count in Counter(type(child) for child in inner.children()).items()
    )
