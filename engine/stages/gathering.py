"""When the units of stage 3 are whole: gathered on need, the next one fetched ahead, released after use.

The order of units is learned as it happens: after unit A came unit B, so next time A is needed, B is
fetched ahead. A changed order costs one fetch in vain and is learned at once; nothing is ever recorded
wrongly, because what was expected decides only what is fetched early.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any

from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks

from engine.collectives import Pending
from engine.tracing import PhaseClock
from engine.weights import SlicedWeights
from probe.schema.vocabulary import Phase


class Pass(Enum):
    """The direction in which units are being used."""

    FORWARD = auto()
    BACKWARD = auto()


@dataclass(kw_only=True, eq=False)
class Unit:
    """Parameters that are gathered and released together: those that are trained, those that are not."""

    name: str
    trained: SlicedWeights | None
    frozen: SlicedWeights | None
    users: int
    """How many modules need it."""
    on_its_way: list[Pending] = field(default_factory=list)
    live: bool = False
    """Gathered, or on its way."""
    gradients_came: bool = False
    inputs_done: bool = False

    @property
    def parts(self) -> list[SlicedWeights]:
        """The one or two flat buffers that make it up."""
        return [part for part in (self.trained, self.frozen) if part is not None]

    @property
    def elements(self) -> int:
        """Its size when whole."""
        return sum(part.layout.padded_elements for part in self.parts)


class Gatherer:
    """Keeps the units that are needed now, and at most one more."""

    def __init__(
        self, *, clock: PhaseClock, prefetch_elements: int, max_live_elements: int
    ) -> None:
        self._clock = clock
        self._prefetches = prefetch_elements > 0
        self._max_live_elements = max_live_elements
        self._live: dict[Unit, None] = {}
        self._live_elements = 0
        self._unit_at: dict[int, Unit] = {}
        self._after: dict[tuple[Pass, Unit], Unit] = {}
        self._last: dict[Pass, Unit] = {}

    def begin(self, direction: Pass) -> None:
        """A new forward or backward: what came last before has no successor."""
        self._last.pop(direction, None)

    def need(self, unit: Unit, direction: Pass) -> None:
        """Make a unit whole, and start to fetch the one that came after it last time."""
        self.fetch(unit)
        last = self._last.get(direction)
        if last is unit:
            return
        if last is not None:
            self._after[direction, last] = unit
        self._last[direction] = unit
        following = self._after.get((direction, unit))
        if (
            self._prefetches
            and following is not None
            and not following.live
            and self._live_elements + following.elements <= self._max_live_elements
        ):
            self._start(following)

    def fetch(self, unit: Unit) -> None:
        """Make a unit whole and learn nothing from it."""
        if not unit.live:
            self._start(unit)
        if unit.on_its_way:
            with self._clock.phase(Phase.GATHER_WAIT):
                self._arrive(unit)

    def release(self, unit: Unit) -> None:
        """Only this rank's slice remains."""
        if not unit.live:
            return
        self._arrive(unit)
        for part in unit.parts:
            self._unit_at.pop(part.address, None)
            part.release()
        unit.live = False
        del self._live[unit]
        self._live_elements -= unit.elements

    def release_all(self) -> None:
        """Nothing is whole any more."""
        for unit in list(self._live):
            self.release(unit)

    def watching_saved_tensors(self, current: Callable[[], Pass]) -> saved_tensors_hooks:
        """While this is entered, a weight that autograd saves is gathered again when it is used.

        It needs no knowledge of what a module returns: whatever path backward takes, the first use of a
        weight brings its unit. Inside activation checkpointing the checkpoint's own hooks apply; there
        forward runs again, which gathers too.
        """

        def pack(tensor: Tensor) -> Any:
            unit = self._unit_at.get(tensor.untyped_storage().data_ptr())
            return tensor if unit is None else (unit, tensor)

        def unpack(packed: Any) -> Tensor:
            if isinstance(packed, Tensor):
                return packed
            unit, tensor = packed
            self.need(unit, current())
            restored: Tensor = tensor
            return restored

        return saved_tensors_hooks(pack, unpack)

    @property
    def live(self) -> list[Unit]:
        """What is whole now, or soon."""
        return list(self._live)

    def _start(self, unit: Unit) -> None:
        unit.on_its_way = [part.gather() for part in unit.parts]
        for part in unit.parts:
            self._unit_at[part.address] = unit
        unit.live = True
        unit.gradients_came = unit.inputs_done = False
        self._live[unit] = None
        self._live_elements += unit.elements

    def _arrive(self, unit: Unit) -> None:
        for pending in unit.on_its_way:
            pending.wait()
        unit.on_its_way.clear()
