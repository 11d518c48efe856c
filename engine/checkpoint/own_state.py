"""What belongs to one rank beside tensors: its random numbers, and what the script asked to keep.

numpy's global generator is looked for and never imported: a script that does not use it has none.
"""

import random
import sys
from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

import torch

from engine.checkpoint.plain import from_plain, to_plain
from probe.errors import ProbeError, UsageError


@runtime_checkable
class Stateful(Protocol):
    """Anything that tells its state and takes it up again."""

    def state_dict(self) -> Any:
        """All that there is to keep."""

    def load_state_dict(self, state: Any) -> Any:
        """Go on from there."""


class Remembered:
    """Things of the script that are saved and restored with every checkpoint, by name."""

    def __init__(self) -> None:
        self._things: dict[str, torch.Generator | Stateful] = {}
        self._loaded: dict[str, Any] = {}

    def add(self, name: str, thing: Any) -> None:
        """Keep it from now on; if a checkpoint was loaded that knows it, restore it now."""
        if not isinstance(thing, torch.Generator | Stateful):
            raise UsageError(
                f"{name!r} cannot be remembered: a {type(thing).__name__} is no torch.Generator and"
                " has no state_dict() and load_state_dict()"
            )
        self._things[name] = thing
        if name in self._loaded:
            self._restore(name)

    def capture(self) -> dict[str, Any]:
        """The state of each, plain."""
        return {name: _state_of(thing, name) for name, thing in self._things.items()}

    def restore(self, states: Mapping[str, Any], *, generators: bool) -> None:
        """Restore what is known; the rest waits until the script names it."""
        self._loaded = {
            name: state
            for name, state in states.items()
            if generators or not isinstance(from_plain(state), bytes)
        }
        for name in self._things:
            if name in self._loaded:
                self._restore(name)

    def _restore(self, name: str) -> None:
        thing, state = self._things[name], from_plain(self._loaded.pop(name))
        if isinstance(thing, torch.Generator) != isinstance(state, bytes):
            raise ProbeError(
                f"the checkpoint remembers another kind of thing as {name!r} than a"
                f" {type(thing).__name__}"
            )
        if isinstance(thing, torch.Generator):
            thing.set_state(_tensor(state))
        else:
            thing.load_state_dict(state)


def capture_random(device: torch.device) -> Any:
    """The states of all global generators of this process, plain."""
    numpy_random = sys.modules.get("numpy.random")
    numpy_state = None
    if numpy_random is not None:
        kind, keys, *rest = numpy_random.get_state()
        numpy_state = (kind, keys.tolist(), *rest)
    return to_plain(
        {
            "torch": _bytes(torch.get_rng_state()),
            "cuda": _bytes(torch.cuda.get_rng_state(device)) if device.type == "cuda" else None,
            "python": random.getstate(),
            "numpy": numpy_state,
        },
        "random numbers",
    )


def restore_random(plain: Any, device: torch.device) -> None:
    """Go on where they stood."""
    states = from_plain(plain)
    torch.set_rng_state(_tensor(states["torch"]))
    if device.type == "cuda" and states["cuda"] is not None:
        torch.cuda.set_rng_state(_tensor(states["cuda"]), device)
    random.setstate(states["python"])
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is not None and states["numpy"] is not None:
        numpy_random.set_state(states["numpy"])


def _state_of(thing: torch.Generator | Stateful, name: str) -> Any:
    if isinstance(thing, torch.Generator):
        return to_plain(_bytes(thing.get_state()), name)
    return to_plain(thing.state_dict(), name)


def _bytes(state: torch.Tensor) -> bytes:
    return state.cpu().numpy().tobytes()


def _tensor(content: bytes) -> torch.Tensor:
    return torch.frombuffer(bytearray(content), dtype=torch.uint8)
