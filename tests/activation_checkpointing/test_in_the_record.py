"""What a run tells of it: bytes kept, the time of second forwards; and the memory itself."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from engine.config.policies import ActivationPolicy
from engine.resident import resident
from probe.schema.tables import MEMORY, STEPS
from probe.schema.vocabulary import Precision
from tests.activation_checkpointing.noisy import begin
from tests.engine.cases import config
from tests.engine.team import Team
from tests.telemetry.recorded import begin as begin_recorded
from tests.telemetry.recorded import micro_batch, recording_into, rows_of

STEPS_RUN = 5
MEBIBYTE = 2**20


class Deep(nn.Module):
    """Much more activations than weights."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Linear(64, 64), *(nn.GELU() for _ in range(5))) for _ in range(12)
        )

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = x + block(x)
        return x


def recorded(run_dir: str, stage: int, every: int, to_host: bool = False) -> list[float]:
    with recording_into(run_dir):
        trainer = begin_recorded(
            config(
                stage,
                accumulation=2,
                activations=ActivationPolicy(every_block=every, offload_to_host=to_host),
            )
        )
        losses = [micro_batch(trainer, number) for number in range(2 * STEPS_RUN)]
        trainer.close()
    return losses


def kept_rows(run_dir: Path) -> list[tuple[int, int]]:
    return [
        (row["device_activations_bytes"], row["host_activations_bytes"])
        for row in rows_of(run_dir, MEMORY)
    ]


@pytest.mark.parametrize("stage", [1, 3])
def test_kept_bytes_and_second_forwards_are_recorded(
    teams: dict[int, Team], tmp_path: Path, stage: int
) -> None:
    # GIVEN three equal blocks, each of which saves about the same
    runs = {name: tmp_path / name for name in ("plain", "every", "second", "host")}
    changes: dict[str, dict[str, Any]] = {
        "plain": {"every": 0},
        "every": {"every": 1},
        "second": {"every": 2},
        "host": {"every": 1, "to_host": True},
    }
    losses = [
        teams[2].run(recorded, run_dir=str(folder), stage=stage, **changes[name])
        for name, folder in runs.items()
    ]
    assert losses.count(losses[0]) == len(losses)
    # WHEN their inputs alone are kept, and one block whole while its backward runs
    kept = {name: set(kept_rows(folder)) for name, folder in runs.items()}
    (plain,), (every,), (second,), (host,) = kept.values()
    # THEN the ledger says so, for every step and rank
    assert plain[0] > second[0] > every[0] > host[0] > 0
    entry = 4 * 5 * 32 * 4
    whole = (plain[0] - every[0]) // 2 + entry
    assert every[0] == plain[0] - 2 * (whole - entry)
    assert second[0] == plain[0] - (whole - entry)
    assert [each[1] for each in (plain, every, second)] == [0, 0, 0]
    # The last block is kept whole where the ledger is taken; what enters the first comes from a
    # tensor that the embedding keeps for nobody.
    assert host[1] == 2 * entry
    assert host[0] == every[0] - 2 * entry
    for name, folder in runs.items():
        for row in rows_of(folder, STEPS):
            spent_ns = row["recompute_ns"]
            assert 0 < spent_ns < row["backward_ns"] if name != "plain" else spent_ns == 0


def peak_growth(every: int) -> int:
    """How far the resident set grows over one step of a model that is mostly activations."""
    trainer = begin(0, Precision.FP32, every, make=Deep)
    x = torch.rand(8192, 64)
    trainer.backward(trainer(x[:8]).square().mean())  # What is allocated once is there.
    trainer.step()
    before = resident().peak_bytes
    trainer.backward(trainer(x).square().mean())
    trainer.step()
    trainer.close()
    assert before is not None
    return resident().peak_bytes - before


def test_the_process_itself_stays_smaller() -> None:
    grown = {}
    for every in (1, 0):
        team = Team(1)
        try:
            (grown[every],) = team.run(peak_growth, every=every)
        finally:
            team.stop()
    # 12 blocks keep 6 results of 2 MiB each; or 12 inputs and one block, and what the allocator
    # cannot use again because gradients lie in between.
    assert grown[0] > 130 * MEBIBYTE
    assert grown[1] < 0.6 * grown[0]
