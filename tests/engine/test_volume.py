"""What each stage really sends and really holds, beside the closed forms."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import engine
from engine.config.policies import SameHost
from engine.memory import MODEL_STATES
from probe.schema.vocabulary import CollectiveOp, MemoryCategory, Precision
from tests.engine.cases import config
from tests.engine.models import Block, batch_of, loss_of
from tests.engine.team import Team

THRESHOLD = 300
SENT = "wchar"


class Tied(nn.Module):
    """Every weight is needed in forward and in backward."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(211, 96)
        self.blocks = nn.ModuleList(Block(96) for _ in range(4))
        self.head = nn.Linear(96, 211, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def written_bytes() -> int:
    """All that this process has written: gloo's sockets are written to like files."""
    with open("/proc/self/io") as counters:
        return next(int(line.split()[1]) for line in counters if line.startswith(SENT))


def measured(stage: int, precision: Precision, steps: int) -> dict[str, Any]:
    torch.manual_seed(0)
    model = Tied()
    sizes = [parameter.numel() for parameter in model.parameters()]
    trainer, *_ = engine.initialize(
        model=model,
        optimizer=torch.optim.AdamW(model.parameters()),
        config=config(
            stage,
            precision=precision,
            same_host=SameHost.SOCKETS,
            zero={"reduce_bucket_elements": 20_000, "persistence_threshold_elements": THRESHOLD},
        ),
    )

    def step(number: int) -> None:
        trainer.backward(loss_of(trainer, batch_of(number, trainer.global_rank, words=211)))
        trainer.step()

    step(0)
    trainer.collectives.take_tallies()
    before = written_bytes()
    for number in range(1, steps + 1):
        step(number)
    sent = written_bytes() - before
    tallies = trainer.collectives.take_tallies()
    ledger = trainer.ledger()
    padding = (
        sum(
            layout.padded_elements - layout.elements
            for layout in (bucket.layout for bucket in trainer._stage._reducer.buckets)
        )
        if stage
        else 0
    )
    trainer.close()
    return {
        "sent": sent / steps,
        "counted": sum(tally.wire_bytes for tally in tallies.values()) / steps,
        "logical": {
            op: sum(t.logical_bytes for (_, each), t in tallies.items() if each is op) / steps
            for op in CollectiveOp
        },
        "ledger": ledger,
        "padding": padding,
        "resident": sum(size for size in sizes if size <= THRESHOLD),
        "parameters": sum(sizes),
    }


@pytest.mark.parametrize("precision", [Precision.FP32, Precision.BF16])
@pytest.mark.parametrize("stage", [0, 1, 2, 3])
@pytest.mark.parametrize("world", [2, 4])
def test_bytes_on_the_wire_are_those_of_the_closed_form(
    teams: dict[int, Team], world: int, stage: int, precision: Precision
) -> None:
    results = teams[world].run(measured, stage=stage, precision=precision, steps=3)
    parameters, resident = results[0]["parameters"], results[0]["resident"]
    width = 4 if precision is Precision.FP32 else 2
    gathered = 2 * (parameters - resident) + resident if stage == 3 else parameters
    expected = (parameters + gathered) * width * (world - 1) / world
    for facts in results:
        assert facts["sent"] == pytest.approx(expected, rel=0.03)
        assert facts["counted"] == pytest.approx(expected, rel=0.01)
        logical = facts["logical"]
        assert logical[CollectiveOp.REDUCE_SCATTER] == pytest.approx(parameters * width, rel=0.01)
        assert logical[CollectiveOp.ALL_GATHER] == pytest.approx(gathered * width, rel=0.01)


@pytest.mark.parametrize("precision", [Precision.FP32, Precision.BF16])
@pytest.mark.parametrize("stage", [0, 1, 2, 3])
def test_model_states_are_the_closed_form_plus_named_padding(
    teams: dict[int, Team], stage: int, precision: Precision
) -> None:
    world = 4
    for facts in teams[world].run(measured, stage=stage, precision=precision, steps=1):
        ledger, width = facts["ledger"], 4 if precision is Precision.FP32 else 2
        # After a step stage 0 holds no gradients; the others keep the storage for them.
        named = {
            MemoryCategory.PARAMS: facts["padding"] * width / (world if stage == 3 else 1),
            MemoryCategory.GRADS: facts["padding"] * width / (world if stage >= 2 else 1),
            MemoryCategory.MASTER_PARAMS: facts["padding"] * 4 / world * (width == 2),
            # Padding has no moments, and each segment counts its steps.
            MemoryCategory.OPTIMIZER_STATES: 0.0,
        }
        if stage == 3:
            named[MemoryCategory.PARAMS] += facts["resident"] * width * (world - 1) / world
        for category in MODEL_STATES:
            if stage == 0 and category is MemoryCategory.GRADS:
                continue
            slack = (
                8 * facts["padding"] + 4096 if category is MemoryCategory.OPTIMIZER_STATES else 64
            )
            assert ledger.residual_bytes[category] == pytest.approx(named[category], abs=slack), (
                category
            )
