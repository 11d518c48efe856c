"""A model with every kind of state, and training runs that stop and go on, inside a team."""

import random
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import TensorDataset

import engine
from engine.config.policies import AtMinimum, LossScalePolicy, OptimizerPolicy, SchedulePolicy
from probe.schema.vocabulary import Precision
from tests.engine.cases import config
from tests.engine.models import Block

WORDS = 11
SAMPLES = 40
MOVING_SCALE = LossScalePolicy(
    initial_scale_power=16, window_steps=3, hysteresis=2, at_minimum=AtMinimum.CLAMP
)


class Everything(nn.Module):
    """Dropout, running statistics, tied, frozen and unused weights; one that is used now and then.

    No size divides by a world size, and one is smaller than any.
    """

    def __init__(self, width: int = 7) -> None:
        super().__init__()
        self.embed = nn.Embedding(WORDS, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(3))
        self.blocks[1].up.weight.requires_grad_(False)
        self.drop = nn.Dropout(0.2)
        self.norm = nn.BatchNorm1d(width)
        self.unused = nn.Linear(width, 3)
        self.sometimes = nn.Linear(width, width)
        self.gain = nn.Parameter(torch.ones(1))
        self.head = nn.Linear(width, WORDS, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, tokens: Tensor, *, with_all: bool) -> Tensor:
        x = self.embed(tokens)
        for block in self.blocks:
            x = self.drop(block(x))
        x = self.norm(x.flatten(0, 1)).view(x.shape)
        if with_all:
            x = x + self.sometimes(x)
        logits = self.head(x * self.gain)
        return functional.cross_entropy(
            logits[:, :-1].flatten(0, 1).float(), tokens[:, 1:].flatten()
        )


def begin(
    stage: int, precision: str = "fp32", *, seed: int = 0, sharded: bool = False, **changes: Any
) -> tuple[Any, Any]:
    """An engine and its loader; another seed starts from other weights."""
    torch.manual_seed(seed)
    random.seed(seed)
    chosen = config(
        stage,
        precision=Precision(precision),
        scale=MOVING_SCALE,
        clip_norm=1.0,
        **{
            "optimizer": OptimizerPolicy(type="AdamW", params={"lr": 1e-2}),
            "schedule": SchedulePolicy(
                type="WarmupCosineLR", params={"total_num_steps": 40, "warmup_num_steps": 4}
            ),
            **changes,
        },
    )
    if sharded:
        with engine.sharded_init():
            model = Everything()
    else:
        model = Everything()
    generator = torch.Generator().manual_seed(7)
    data = TensorDataset(torch.randint(WORDS, (SAMPLES, 5), generator=generator))
    trainer, _, loader, _ = engine.initialize(model=model, training_data=data, config=chosen)
    return trainer, loader


def train_to(trainer: Any, loader: Any, steps: int) -> list[tuple[float, float, float, float]]:
    """Loss, scale, learning rate and a random number of Python's in each step until `steps`."""
    told = []
    while trainer.global_steps < steps:
        for (tokens,) in loader:
            # The bias of one layer goes without a gradient in some steps, so step counters differ.
            with_all = trainer.global_steps % 3 != 1
            loss = trainer(tokens, with_all=with_all)
            trainer.backward(loss)
            trainer.step()
            told.append(
                (
                    float(loss.detach()),
                    trainer.loss_scale,
                    trainer.get_lr()[0],
                    random.random(),
                )
            )
            if trainer.global_steps == steps:
                break
    return told


def weights(trainer: Any) -> dict[str, list[Any]]:
    """All masters and buffers of rank 0, and their bits."""
    state = trainer.consolidated_state_dict(torch.float32)
    return {name: value.flatten().tolist() for name, value in state.items()}
