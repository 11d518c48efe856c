"""A model that shows what a second forward may get wrong, and a short run of it."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

import engine
from engine.config.policies import ActivationPolicy
from probe.schema.vocabulary import Precision
from tests.engine.cases import config
from tests.engine.models import batch_of, loss_of

WORDS = 23
WIDTH = 24
DEPTH = 4


class Noisy(nn.Module):
    """Dropout draws, a norm that keeps averages, a matrix that is frozen, keyword arguments."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(WIDTH)
        self.up = nn.Linear(WIDTH, 2 * WIDTH)
        self.down = nn.Linear(2 * WIDTH, WIDTH)
        self.dropout = nn.Dropout(0.2)
        self.up.bias.requires_grad_(False)

    def forward(self, x: Tensor, *, gain: Tensor, twice: bool = False) -> tuple[Tensor, Tensor]:
        inside = functional.gelu(self.up(self.norm(x.transpose(1, 2)).transpose(1, 2)))
        x = x + self.dropout(self.down(inside)) * gain * (2 if twice else 1)
        return x, inside.float().square().mean()


class Stack(nn.Module):
    """Blocks between an embedding and a head that is tied to it."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(WORDS, WIDTH)
        self.gain = nn.Parameter(torch.ones(WIDTH))
        self.blocks = nn.ModuleList(Noisy() for _ in range(DEPTH))
        self.head = nn.Linear(WIDTH, WORDS, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens)
        for number, block in enumerate(self.blocks):
            x, aside = block(x, gain=self.gain, twice=number == 1)
            x = x + 1e-3 * aside
        return functional.linear(x, self.embed.weight)


def begin(
    stage: int, precision: Precision, every: int, *, to_host: bool = False, make: Any = Stack
) -> Any:
    torch.manual_seed(0)
    model = make()
    trainer, *_ = engine.initialize(
        model=model,
        optimizer=torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-2),
        config=config(
            stage,
            precision=precision,
            zero={"reduce_bucket_elements": 1500, "persistence_threshold_elements": 30},
            activations=ActivationPolicy(every_block=every, offload_to_host=to_host),
        ),
    )
    return trainer


def loss(trainer: Any, number: int) -> Tensor:
    return loss_of(trainer, batch_of(number, trainer.global_rank, words=WORDS))
