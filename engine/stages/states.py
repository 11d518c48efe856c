"""Stages 1 and 2: whole weights on every rank, sliced optimizer states, in 2 sliced gradients.

    backward   gradients -> bucket -> reduce-scatter -> the owner's slice of the average
    step       the owner updates its slice of the fp32 masters, and of the 16-bit weights
    publish    all-gather of the weights, in place

The one difference: stage 1 keeps each rank's whole gradients in flat storage and averages its own
slice in place there; stage 2 holds a whole bucket only while it fills and is on its way.
"""

from collections.abc import Iterator, Mapping, Sequence

from torch import Tensor
from torch.nn import Parameter

from engine.facts import BadTensor
from engine.partition import plan_buckets
from engine.reduction import Reducer
from engine.stages.base import Frozen, Setting, Stage, frozen_whole
from engine.weights import WholeWeights, masters_in_memory, publish_whole
from probe.schema.vocabulary import MemoryCategory, Tier


class SlicedStates(Stage):
    """ZeRO-1, and with `slice_gradients` ZeRO-2."""

    gradients_are_sliced = True

    def __init__(self, setting: Setting, *, slice_gradients: bool) -> None:
        self._clock = setting.clock
        self._places = setting.places
        self._slice_gradients = slice_gradients
        collectives, device = setting.collectives, setting.device
        world, limit = collectives.world, setting.bucket_elements
        layouts = plan_buckets(setting.trained, world=world, limit_elements=limit)
        frozen = plan_buckets(setting.frozen, world=world, limit_elements=limit, prefix="frozen")
        self._weights, self._frozen = (
            [
                WholeWeights(
                    layout,
                    dtype=setting.dtype,
                    collectives=collectives,
                    places=setting.places,
                    device=device,
                    trained=trained,
                )
                for layout in some
            ]
            for some, trained in ((layouts, True), (frozen, False))
        )
        self._reducer = Reducer(
            layouts,
            rule=setting.reduction_rule(keep_local=not slice_gradients),
            collectives=collectives,
            clock=setting.clock,
            device=device,
        )
        self.segments = [
            segment
            for weights, bucket in zip(self._weights, self._reducer.buckets, strict=True)
            for segment in weights.segments(bucket.owned)
        ]

    def begin_backward(self, *, synchronise: bool) -> None:
        self._reducer.begin(synchronise=synchronise)

    def end_backward(self) -> None:
        self._reducer.finish()

    def clear(self) -> None:
        self._reducer.clear()

    def publish(self) -> None:
        publish_whole(self._weights, self._clock)

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
        for weights in (*self._weights, *self._frozen):
            yield from weights.pieces(weights.flat, self.masters_of(weights) if masters else None)

    def frozen(self) -> Iterator[Frozen]:
        for weights in self._frozen:
            yield from frozen_whole(weights)

    def held(self) -> Mapping[MemoryCategory, Sequence[Tensor]]:
        return {
            MemoryCategory.PARAMS: [each.flat for each in (*self._weights, *self._frozen)],
            **self._reducer.held(),
            MemoryCategory.MASTER_PARAMS: masters_in_memory(self._weights),
        }

    def away(self) -> Mapping[tuple[Tier, MemoryCategory], Sequence[Tensor]]:
        places = self._places
        if places.gradient_tier is Tier.DEVICE:
            return {}
        gradients = self._reducer.held()[MemoryCategory.GRADS] if self._slice_gradients else []
        return {
            (places.gradient_tier, MemoryCategory.GRADS): gradients,
            (Tier.HOST, MemoryCategory.MASTER_PARAMS): masters_in_memory(self._weights),
        }
