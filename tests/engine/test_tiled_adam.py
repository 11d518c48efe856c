"""The tiled update against torch's own step: bit for bit, and only where nothing else is asked."""

import warnings
from types import MethodType
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import Parameter
from torch.optim import SGD, Adam, AdamW, Optimizer
from torch.optim.lr_scheduler import StepLR
from torch.optim.optimizer import register_optimizer_step_pre_hook

from engine.buffers import BufferPool
from engine.segments import Segment
from engine.tiled_adam import TILE_ELEMENTS, TiledAdam

SIZES = (3, 1, 700, TILE_ELEMENTS, TILE_ELEMENTS + 5, 2 * TILE_ELEMENTS + 17, 64)
GROUPS = (0, 1, 0, 1, 0, 1, 1)


def segments_of(dtype: torch.dtype, *, seed: int = 0) -> list[Segment]:
    chance = torch.Generator().manual_seed(seed)
    made = []
    for size, group in zip(SIZES, GROUPS, strict=True):
        master = torch.randn(size, generator=chance)
        gradient = torch.randn(size, generator=chance).to(dtype)
        target = None if dtype is torch.float32 else master.to(dtype)
        made.append(
            Segment(
                group=group,
                master=Parameter(master),
                gradient=gradient,
                target=target,
                spans=(),
                layout=None,  # type: ignore[arg-type]
                start=0,
            )
        )
    return made


def optimizer_of(kind: type[Optimizer], segments: list[Segment], **settings: Any) -> Optimizer:
    groups = [
        {"params": [each.master for each in segments if each.group == number], "lr": learning_rate}
        for number, learning_rate in enumerate((1e-2, 5e-3))
    ]
    settings = {"fused": True, "weight_decay": 0.1, **settings}
    return kind(groups, **settings)  # type: ignore[call-arg]


def step_as_torch(optimizer: Optimizer, segments: list[Segment], factor: float) -> None:
    for segment in segments:
        assert segment.gradient is not None
        segment.master.grad = segment.gradient.float() * factor
    optimizer.step()
    for segment in segments:
        segment.master.grad = None
        if segment.target is not None:
            segment.target.copy_(segment.master.detach())


def refresh(segments: list[Segment], seed: int) -> None:
    for segment, other in zip(segments, segments_of(torch.float32, seed=seed), strict=True):
        assert segment.gradient is not None and other.gradient is not None
        segment.gradient.copy_(other.gradient)


def everything(optimizer: Optimizer, segments: list[Segment]) -> list[Tensor]:
    states = [
        optimizer.state[each.master][name]
        for each in segments
        for name in ("exp_avg", "exp_avg_sq", "step")
    ]
    weights = [each.target for each in segments if each.target is not None]
    return [*(each.master.detach() for each in segments), *states, *weights]


@pytest.mark.parametrize("kind", [Adam, AdamW])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("factor", [1.0, 0.37])
@pytest.mark.parametrize("maximize", [False, True])
@pytest.mark.parametrize("threads", [1, 2])
def test_bit_for_bit(
    kind: type[Optimizer], dtype: torch.dtype, factor: float, maximize: bool, threads: int
) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        ours, theirs = segments_of(dtype), segments_of(dtype)
        optimizer, reference = (
            optimizer_of(kind, each, maximize=maximize) for each in (ours, theirs)
        )
        tiled = TiledAdam(optimizer, BufferPool(torch.device("cpu")))
        assert not tiled.can_step(ours), "the optimizer makes its states itself"
        step_as_torch(optimizer, ours, factor)
        step_as_torch(reference, theirs, factor)
        for seed in range(1, 4):
            for each in (ours, theirs):
                refresh(each, seed)
            assert tiled.can_step(ours)
            tiled.step(ours, factor)
            step_as_torch(reference, theirs, factor)
            for one, other in zip(
                everything(optimizer, ours), everything(reference, theirs), strict=True
            ):
                assert torch.equal(one, other)
    finally:
        torch.set_num_threads(before)


def started(
    kind: type[Optimizer] = AdamW, **settings: Any
) -> tuple[Optimizer, list[Segment], TiledAdam]:
    segments = segments_of(torch.bfloat16)
    optimizer = optimizer_of(kind, segments, **settings)
    step_as_torch(optimizer, segments, 1.0)
    return optimizer, segments, TiledAdam(optimizer, BufferPool(torch.device("cpu")))


@pytest.mark.parametrize(
    "settings", [{"amsgrad": True}, {"fused": False}, {"lr": torch.tensor(1e-3)}]
)
def test_what_is_not_plain_goes_its_own_way(settings: dict[str, Any]) -> None:
    optimizer, segments, tiled = started()
    assert tiled.can_step(segments)
    optimizer.param_groups[1].update(settings)
    assert not tiled.can_step(segments)


def test_other_optimizers_go_their_own_way() -> None:
    class Mine(AdamW):
        pass

    for kind, settings in ((SGD, {"momentum": 0.9}), (Mine, {})):
        _, segments, tiled = started(kind, **settings)
        assert not tiled.can_step(segments)


def test_who_listens_to_the_step_hears_it() -> None:
    optimizer, segments, tiled = started()
    handle = optimizer.register_step_post_hook(lambda *_: None)
    assert not tiled.can_step(segments)
    handle.remove()
    assert tiled.can_step(segments)
    handle = register_optimizer_step_pre_hook(lambda *_: None)
    assert not tiled.can_step(segments)
    handle.remove()
    optimizer.step = MethodType(lambda self: None, optimizer)  # type: ignore[assignment]
    assert not tiled.can_step(segments)


def test_a_schedule_neither_stands_in_the_way_nor_warns() -> None:
    optimizer, segments, tiled = started()
    schedule = StepLR(optimizer, step_size=1)
    assert tiled.can_step(segments)
    tiled.step(segments, 1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        schedule.step()
    assert [group["lr"] for group in optimizer.param_groups] == pytest.approx([1e-3, 5e-4])


def test_the_buffer_goes_back() -> None:
    pool = BufferPool(torch.device("cpu"))
    _, segments, tiled = started()
    tiled._pool = pool
    for _ in range(3):
        tiled.step(segments, 1.0)
    assert pool.held_bytes == 4 * TILE_ELEMENTS * torch.get_num_threads()
