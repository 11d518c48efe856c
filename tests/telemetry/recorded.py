"""A recorded training run inside a team's processes, and its rows outside of them."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

import engine
from engine import recording
from engine.config.policies import Config
from probe.read.run import load_run
from probe.schema.handover import Handover
from probe.schema.tables import Table
from tests.engine.models import Block, batch_of, loss_of

WORDS = 53


class Tied(nn.Module):
    """Every weight is needed in forward and in backward, and most are large enough to be sliced."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(WORDS, 32)
        self.blocks = nn.ModuleList(Block(32) for _ in range(3))
        self.head = nn.Linear(32, WORDS, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


@contextmanager
def recording_into(run_dir: str, **handover: Any) -> Iterator[recording.Session]:
    """What the worker does around a script, as often as one likes in one process."""
    os.environ["RANK"] = os.environ["LOCAL_RANK"] = str(dist.get_rank())
    recording._session = None
    session = recording.begin(Handover(run_dir=run_dir, **handover))
    try:
        yield session
    finally:
        session.finished()
        recording._session = None


def begin(config: Config, make: Callable[[], nn.Module] = Tied) -> Any:
    torch.manual_seed(0)
    model = make()
    trainer, *_ = engine.initialize(
        model=model, optimizer=torch.optim.AdamW(model.parameters(), lr=1e-3), config=config
    )
    return trainer


def micro_batch(trainer: Any, number: int) -> float:
    """One forward, backward and step; the loss."""
    loss = loss_of(trainer, batch_of(number, trainer.global_rank, words=WORDS))
    trainer.backward(loss)
    trainer.step()
    return float(loss.detach())


def rows_of(run_dir: Path, table: Table) -> list[dict[str, Any]]:
    return load_run(run_dir).table(table).table.to_pylist()
