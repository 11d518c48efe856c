"""Stage 3: weights are slices too; a unit is whole only while it computes.

    forward    gather unit -> compute -> release, while the next unit is on its way
    backward   gather unit -> compute -> its gradients leave to their owners -> release
    step       the owner updates its slice; nothing is gathered until the next forward

Parameters up to the persistence threshold stay whole on every rank, as in stage 2: gathering a bias
costs its latency and saves nothing.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module, Parameter

from engine.facts import BadTensor
from engine.nested import tensors_in
from engine.partition import Layout, Member, lay_out, plan_buckets
from engine.reduction import Reducer
from engine.stages.base import Frozen, Setting, Stage, frozen_whole
from engine.stages.gathering import Gatherer, Pass, Unit
from engine.stages.watched import WatchedParameters
from engine.units import UnitPlan, plan_units
from engine.weights import SlicedWeights, WholeWeights, masters_in_memory, publish_whole
from probe.schema.vocabulary import MemoryCategory, Tier


class SlicedParameters(Stage):
    """ZeRO-3."""

    gradients_are_sliced = True

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self._root = setting.module
        self._in_backward = False
        self._watching: AbstractContextManager[Any] | None = None
        policy, clock = setting.config.zero, setting.clock
        self._gatherer = Gatherer(
            clock=clock,
            kept=setting.kept,
            prefetch_elements=policy.prefetch_elements,
            max_live_elements=policy.max_live_elements,
        )
        threshold = policy.persistence_threshold_elements
        self._resident = self._make_resident(
            [member for member in setting.members if member.elements <= threshold]
        )
        sliced = {m.parameter: m for m in setting.members if m.elements > threshold}
        self._unit_of: dict[Parameter, Unit] = {}
        self._unit_of_layout: dict[Layout, Unit] = {}
        needs: dict[Module, list[Unit]] = {}
        self._units = []
        for plan in plan_units(self._root):
            unit = self._make_unit(plan, [sliced[p] for p in plan.parameters if p in sliced])
            if unit is not None:
                self._units.append(unit)
                for user in plan.users:
                    needs.setdefault(user, []).append(unit)
        for module, units in needs.items():
            self._attach(module, units)
        self._root.register_forward_pre_hook(self._root_begins, prepend=True)
        self._root.register_forward_hook(self._root_ends)
        self._root.register_forward_hook(self._stop_watching, always_call=True)
        self._watch_attributes()
        trained: list[SlicedWeights | WholeWeights] = [
            *(unit.trained for unit in self._units if unit.trained is not None),
            *(weights for weights in self._resident if weights.trained),
        ]
        # In model order, so that the reverse of it is a fair guess at the order of backward.
        trained.sort(key=lambda each: min(member.index for member in each.layout.members))
        self._reducer = Reducer(
            [weights.layout for weights in trained],
            rule=setting.reduction_rule(keep_local=False),
            collectives=setting.collectives,
            clock=clock,
            device=setting.device,
            completed=self._gradients_came,
        )
        self.segments = [
            segment
            for weights, bucket in zip(trained, self._reducer.buckets, strict=True)
            for segment in weights.segments(bucket.owned)
        ]
        self._trained = trained

    def begin_backward(self, *, synchronise: bool) -> None:
        self._in_backward = True
        self._gatherer.begin(Pass.BACKWARD)
        self._reducer.begin(synchronise=synchronise)

    def end_backward(self) -> None:
        self._in_backward = False
        self._gatherer.release_all()
        self._reducer.finish()

    def clear(self) -> None:
        self._reducer.clear()

    def publish(self) -> None:
        self._gatherer.foresee(Pass.FORWARD)
        publish_whole(
            [weights for weights in self._resident if weights.trained], self._setting.clock
        )

    @property
    def used(self) -> set[int]:
        return self._reducer.used

    @property
    def bad(self) -> list[BadTensor]:
        return self._reducer.bad

    @property
    def square_sum(self) -> float | None:
        return self._reducer.square_sum

    def whole_weights(self, *, masters: bool) -> Iterator[tuple[Parameter, Tensor]]:
        for weights in self._resident:
            yield from weights.pieces(weights.flat, self.masters_of(weights) if masters else None)
        for unit in self._units:
            self._gatherer.fetch(unit)
            for part in unit.parts:
                yield from part.pieces(part.full, self.masters_of(part) if masters else None)
            self._gatherer.release(unit)

    def frozen(self) -> Iterator[Frozen]:
        for weights in self._resident:
            if not weights.trained:
                yield from frozen_whole(weights)
        for unit in self._units:
            if unit.frozen is not None:
                for span in unit.frozen.layout.spans(self._setting.collectives.rank):
                    yield Frozen(
                        member=span.member,
                        offset=span.offset,
                        start=span.start,
                        elements=span.stop - span.start,
                        weights=unit.frozen.shard,
                        on_every_rank=False,
                    )

    def held(self) -> Mapping[MemoryCategory, Sequence[Tensor]]:
        parts = [part for unit in self._units for part in unit.parts]
        return {
            MemoryCategory.PARAMS: [
                *(part.shard.resting for part in parts if part.shard.always_at_hand),
                *(weights.flat for weights in self._resident),
            ],
            MemoryCategory.GATHERED_PARAMS: [
                part.full for unit in self._gatherer.live for part in unit.parts
            ],
            **self._reducer.held(),
            MemoryCategory.MASTER_PARAMS: masters_in_memory(self._trained),
        }

    def away(self) -> Mapping[tuple[Tier, MemoryCategory], Sequence[Tensor]]:
        places = self._setting.places
        tensors: dict[tuple[Tier, MemoryCategory], Sequence[Tensor]] = {}
        if places.params.tier is Tier.HOST:
            tensors[Tier.HOST, MemoryCategory.PARAMS] = [
                part.shard.resting for unit in self._units for part in unit.parts
            ]
        if places.gradient_tier is not Tier.DEVICE:
            tensors[Tier.HOST, MemoryCategory.MASTER_PARAMS] = masters_in_memory(self._trained)
            tensors[Tier.HOST, MemoryCategory.GRADS] = self._reducer.held()[MemoryCategory.GRADS]
        return tensors

    def _make_resident(self, members: Sequence[Member]) -> list[WholeWeights]:
        setting = self._setting
        weights: list[WholeWeights] = []
        for trained, prefix in ((True, "resident"), (False, "frozen resident")):
            layouts = plan_buckets(
                [member for member in members if (member.group is not None) == trained],
                world=setting.collectives.world,
                limit_elements=setting.bucket_elements,
                prefix=prefix,
            )
            weights += [
                WholeWeights(
                    layout,
                    dtype=setting.dtype,
                    collectives=setting.collectives,
                    places=setting.places,
                    device=setting.device,
                    trained=trained,
                )
                for layout in layouts
            ]
        return weights

    def _make_unit(self, plan: UnitPlan, members: Sequence[Member]) -> Unit | None:
        if not members:
            return None
        setting = self._setting
        parts: dict[bool, SlicedWeights] = {}
        for trained in (True, False):
            some = [member for member in members if (member.group is not None) == trained]
            if some:
                name = plan.name if trained else f"{plan.name} (frozen)"
                parts[trained] = SlicedWeights(
                    lay_out(name, some, setting.collectives.world),
                    dtype=setting.dtype,
                    collectives=setting.collectives,
                    places=setting.places,
                    device=setting.device,
                    trained=trained,
                )
        unit = Unit(
            name=plan.name,
            trained=parts.get(True),
            frozen=parts.get(False),
            users=len(plan.users),
        )
        for part in unit.parts:
            self._unit_of_layout[part.layout] = unit
            self._unit_of.update(dict.fromkeys(part.layout.parameters, unit))
        return unit

    # - What happens while the model runs

    @property
    def _direction(self) -> Pass:
        return Pass.BACKWARD if self._in_backward else Pass.FORWARD

    def _attach(self, module: Module, units: list[Unit]) -> None:
        with_frozen = [unit for unit in units if unit.frozen is not None]

        def begins(module: Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            del module
            for unit in units:
                self._gatherer.need(unit, self._direction)
            if with_frozen and torch.is_grad_enabled():
                for tensor in tensors_in((args, kwargs)):
                    if tensor.requires_grad:
                        tensor.register_hook(  # type: ignore[no-untyped-call]
                            self._inputs_done(with_frozen)
                        )

        def ends(*_: Any) -> None:
            # Forward runs again inside backward when activations are checkpointed: backward
            # follows.
            if not self._in_backward:
                for unit in units:
                    if unit.users == 1:
                        self._gatherer.release(unit)

        module.register_forward_pre_hook(begins, with_kwargs=True)
        module.register_forward_hook(ends)

    def _root_begins(self, *_: Any) -> None:
        if self._watching is None and not self._in_backward:
            self._gatherer.release_all()  # What an exception in the last forward left behind.
            self._gatherer.begin(Pass.FORWARD)
            self._watching = self._gatherer.watching_saved_tensors(lambda: self._direction)
            self._watching.__enter__()

    def _root_ends(self, *_: Any) -> None:
        if not self._in_backward:
            self._gatherer.release_all()

    def _stop_watching(self, *_: Any) -> None:
        if self._watching is not None and not self._in_backward:
            self._watching.__exit__(None, None, None)
            self._watching = None

    def _gradients_came(self, layout: Layout) -> None:
        unit = self._unit_of_layout.get(layout)
        if unit is not None:
            unit.gradients_came = True
            self._release_if_done(unit)

    def _inputs_done(self, units: list[Unit]) -> Callable[[Tensor], None]:
        def done(gradient: Tensor) -> None:
            del gradient
            for unit in units:
                unit.inputs_done = True
                self._release_if_done(unit)

        return done

    def _release_if_done(self, unit: Unit) -> None:
        # A frozen weight may still be needed for the gradient of the unit's inputs.
        trained_done = unit.trained is None or unit.gradients_came
        if trained_done and (unit.frozen is None or unit.inputs_done):
            self._gatherer.release(unit)

    def _watch_attributes(self) -> None:
        """A weight that another module reads (`self.embedding.weight`) is gathered as well."""
        for module in self._root.modules():
            if any(parameter in self._unit_of for parameter in module._parameters.values()):
                module._parameters = WatchedParameters(module._parameters, self._touched)

    def _touched(self, parameter: Any) -> None:
        unit = self._unit_of.get(parameter)
        running = self._watching is not None or self._in_backward
        # One that was fetched early may still be on its way.
        if unit is not None and running and (not unit.live or unit.on_its_way):
            self._gatherer.need(unit, self._direction)
