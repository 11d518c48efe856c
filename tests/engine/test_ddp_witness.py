"""Torch's own DDP as the witness: the same gradients and parameters, by name, at every step."""

from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

import engine
from tests.engine.cases import config
from tests.engine.models import batch_of, loss_of, make_odd, two_groups
from tests.engine.team import Team

STEPS = 6
CLIP = 0.05
Told = list[dict[str, dict[str, Tensor]]]


class LookOn:
    """Copies the averaged gradients before each update, by name."""

    def __init__(self) -> None:
        self.gradients: dict[str, Tensor] = {}

    def before_update(self, segments: Any, scale: float) -> bool:
        self.gradients = {}
        for segment in segments:
            for span in segment.spans:
                if segment.gradient is not None:
                    piece = segment.gradient[span.start : span.stop].float() / scale
                    whole = self.gradients.setdefault(
                        span.member.name, torch.zeros(span.member.elements)
                    )
                    whole[span.offset : span.offset + piece.numel()] = piece
        return False

    def after_update(self, segments: Any) -> None:
        pass


def with_ddp(clip: float) -> Told:
    model = make_odd()
    wrapped = DistributedDataParallel(model, find_unused_parameters=True)
    optimizer = torch.optim.AdamW(two_groups(model), lr=1e-2)
    told: Told = []
    for step in range(STEPS):
        optimizer.zero_grad()
        loss_of(wrapped, batch_of(step, dist.get_rank())).backward()
        gradients = {
            name: parameter.grad.flatten().clone()
            for name, parameter in model.named_parameters()
            if parameter.grad is not None
        }
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        parameters = {name: value.detach().clone() for name, value in model.named_parameters()}
        told.append({"gradients": gradients, "parameters": parameters})
    return told


def with_engine(stage: int, clip: float) -> Told:
    model = make_odd()
    trainer, *_ = engine.initialize(
        model=model,
        optimizer=torch.optim.AdamW(two_groups(model), lr=1e-2),
        config=config(stage, clip_norm=clip),
    )
    names = [name for name, _ in model.named_parameters()]
    look = LookOn()
    trainer.watch_updates(look)
    told: Told = []
    for step in range(STEPS):
        trainer.backward(loss_of(trainer, batch_of(step, trainer.global_rank)))
        trainer.step()
        whole = trainer.consolidated_state_dict()
        parameters = {name: whole[name] for name in names if name in whole}
        told.append({"gradients": dict(look.gradients), "parameters": parameters})
    trainer.close()
    return told


@pytest.mark.parametrize("clip", [0.0, CLIP])
@pytest.mark.parametrize("stage", [0, 1, 2, 3])
@pytest.mark.parametrize("world", [2, 4])
def test_what_ddp_does_at_every_step(
    teams: dict[int, Team], world: int, stage: int, clip: float
) -> None:
    expected = teams[world].run(with_ddp, clip=clip)[0]
    every_rank = teams[world].run(with_engine, stage=stage, clip=clip)
    for step, theirs in enumerate(expected):
        gradients: dict[str, Tensor] = {}
        for rank in every_rank if stage else every_rank[:1]:
            # Each owner has its slice and zeros elsewhere.
            for name, piece in rank[step]["gradients"].items():
                gradients[name] = gradients.get(name, 0) + piece
        # A parameter that took no part has no gradient there and may have zeros here.
        for name, value in theirs["gradients"].items():
            torch.testing.assert_close(
                gradients[name], value, rtol=1e-5, atol=1e-6, msg=f"{name} in step {step}"
            )
        assert not any(
            gradients[name].any() for name in gradients.keys() - theirs["gradients"].keys()
        )
        ours = every_rank[0][step]["parameters"]
        assert ours.keys() == theirs["parameters"].keys()
        for name, value in theirs["parameters"].items():
            torch.testing.assert_close(
                ours[name], value, rtol=1e-6, atol=1e-6, msg=f"{name} in step {step}"
            )
