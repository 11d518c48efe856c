"""The process itself: peak memory of the stages is ordered 0 > 1 > 2 > 3."""

import multiprocessing
import tempfile
from itertools import pairwise
from multiprocessing.connection import Connection
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn

import engine
from benchmarks.memory import forget_peak, peak_resident_bytes, resident_bytes
from engine.config.policies import BatchPolicy, Config, PrecisionPolicy, ZeroPolicy
from engine.memory import MODEL_STATES
from probe.schema.vocabulary import Precision
from tests.engine.models import Block

WIDTH, DEPTH = 256, 48
STEPS = 2
DEADLINE_S = 60.0
MEBIBYTE = 2**20


class Stack(nn.Module):
    """12.6 million parameters in blocks that are small beside them; next to no activations."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block(WIDTH) for _ in range(DEPTH))

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x)
        return x


def serve(pipe: Connection, rank: int, world: int, store: str, stage: int) -> None:
    """One rank, from its first tensor to its last step; what it grew by, and what it holds."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=world)
    before = resident_bytes()
    torch.manual_seed(0)
    model = Stack()
    trainer, *_ = engine.initialize(
        model=model,
        optimizer=torch.optim.AdamW(model.parameters()),
        config=Config(
            batch=BatchPolicy(micro=2),
            precision=PrecisionPolicy(precision=Precision.BF16),
            zero=ZeroPolicy(stage=stage),
        ),
    )
    forget_peak()  # What building took and gave back is no part of training.
    held = 0
    for _ in range(STEPS):
        loss = trainer(torch.rand(2, WIDTH)).float().square().mean()
        trainer.backward(loss)
        held = max(held, sum(trainer.ledger().held_bytes[each] for each in MODEL_STATES))
        trainer.step()
    held = max(held, sum(trainer.ledger().held_bytes[each] for each in MODEL_STATES))
    pipe.send((peak_resident_bytes() - before, held))
    trainer.close()
    dist.destroy_process_group()


def grown_by(world: int, stage: int) -> tuple[int, int]:
    """The largest growth of a rank and the most model states on one."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["engine", "torch.distributed", __name__])
    store = str(Path(tempfile.mkdtemp()) / "store")
    members = []
    for rank in range(world):
        ours, theirs = context.Pipe()
        process = context.Process(
            target=serve, args=(theirs, rank, world, store, stage), daemon=True
        )
        process.start()
        theirs.close()
        members.append((process, ours))
    try:
        for _, pipe in members:
            assert pipe.poll(DEADLINE_S), f"stage {stage} on {world} ranks takes too long"
        facts = [pipe.recv() for _, pipe in members]
    finally:
        for process, _ in members:
            process.join(timeout=5)
            process.kill()
    return max(grown for grown, _ in facts), max(held for _, held in facts)


@pytest.mark.parametrize("world", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_each_stage_takes_less_than_the_one_before(
    world: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Every tensor has pages of its own and gives them back: holes in a heap are left out.
    monkeypatch.setenv("MALLOC_MMAP_THRESHOLD_", "65536")
    taken = [grown_by(world, stage) for stage in (0, 1, 2, 3)]
    for (grown, held), (less_grown, less_held) in pairwise(taken):
        assert grown > less_grown + 4 * MEBIBYTE
        assert held > less_held
