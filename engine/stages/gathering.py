"""When the units of stage 3 are whole: gathered on need, the next one early, released after use.

Each pass is recorded as it happens and the next pass of its kind is expected to go the same way.
Where it does, the unit that comes next is fetched ahead; where it leaves the recorded way it is
followed from the next place they agree, at worst without fetching ahead. What is expected decides
only what comes early, never what is right.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any

from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks

from engine.collectives import Pending
from engine.kept import KeptActivations
from engine.tracing import PhaseClock
from engine.weights import SlicedWeights
from probe.schema.vocabulary import Phase


class Pass(Enum):
    """The direction in which units are being used."""

    FORWARD = auto()
    BACKWARD = auto()


@dataclass(kw_only=True, eq=False)
class Unit:
    """Parameters that are gathered and released together, trained ones and frozen ones."""

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


FETCHED_AHEAD = 2
"""Units whose slices are on their way from where they rest, before their gather starts."""


class Gatherer:
    """Keeps the units that are needed now, and at most one more."""

    def __init__(
        self,
        *,
        clock: PhaseClock,
        kept: KeptActivations,
        prefetch_elements: int,
        max_live_elements: int,
    ) -> None:
        self._clock = clock
        self._kept = kept
        self._prefetches = prefetch_elements > 0
        self._max_live_elements = max_live_elements
        self._live: dict[Unit, None] = {}
        self._live_elements = 0
        self._unit_at: dict[int, Unit] = {}
        self._expected: dict[Pass, list[Unit]] = {each: [] for each in Pass}
        self._seen: dict[Pass, list[Unit]] = {each: [] for each in Pass}
        self._place = dict.fromkeys(Pass, 0)

    def begin(self, direction: Pass) -> None:
        """A new forward or backward: the one before is what to expect."""
        if self._seen[direction]:
            self._expected[direction] = self._seen[direction]
        self._seen[direction] = []
        self._place[direction] = 0

    def foresee(self, direction: Pass) -> None:
        """A pass in this direction will come: the slices of its first units may be fetched."""
        for unit in (self._seen[direction] or self._expected[direction])[:FETCHED_AHEAD]:
            _expect(unit)

    def need(self, unit: Unit, direction: Pass) -> None:
        """Make a unit whole, and start to fetch the one that came after it last time."""
        self.fetch(unit)
        following, next_but_one = self._expect_after(unit, direction)
        if (
            self._prefetches
            and following is not None
            and not following.live
            and self._live_elements + following.elements <= self._max_live_elements
        ):
            self._start(following)
        if next_but_one is not None:
            _expect(next_but_one)
        elif direction is Pass.FORWARD and self._place[direction]:
            self.foresee(Pass.BACKWARD)

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

        It needs no knowledge of what a module returns: whatever path backward takes, the first use
        of a weight brings its unit. Inside activation checkpointing the checkpoint's own hooks
        apply; there forward runs again, which gathers too.
        """

        def pack(tensor: Tensor) -> Any:
            unit = self._unit_at.get(tensor.untyped_storage().data_ptr())
            if unit is None:
                self._kept.note(tensor)
                return tensor
            return unit, tensor

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

    def _expect_after(self, unit: Unit, direction: Pass) -> tuple[Unit | None, Unit | None]:
        """Note that a unit is used; which two come next if this pass goes like the last."""
        seen, expected = self._seen[direction], self._expected[direction]
        if not seen or seen[-1] is not unit:
            seen.append(unit)
            if unit in expected[self._place[direction] :]:
                self._place[direction] = expected.index(unit, self._place[direction]) + 1
        place = self._place[direction]
        agrees = place > 0 and expected[place - 1] is unit
        ahead = [*expected[place : place + 2], None, None] if agrees else [None, None]
        return ahead[0], ahead[1]

    def _start(self, unit: Unit) -> None:
        unit.on_its_way = [part.gather() for part in unit.parts]
        for part in unit.parts:
            self._unit_at[part.address] = unit
        unit.live = True
        unit.gradients_came = unit.inputs_done = False
        self._live[unit] = None
        self._live_elements += unit.elements

    def _arrive(self, unit: Unit) -> None:
        for part, pending in zip(unit.parts, unit.on_its_way, strict=False):
            pending.wait()
            part.gathered()
        unit.on_its_way.clear()


def _expect(unit: Unit) -> None:
    if not unit.live:
        for part in unit.parts:
            part.shard.expect()
