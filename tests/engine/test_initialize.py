"""Scripts as users write them: DeepSpeed's signature, plain python and torchrun."""

import json
import os
import subprocess
import sys
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import TensorDataset

import engine
from engine.facts import StepFacts
from probe.schema.vocabulary import Phase
from tests.engine.models import Odd, batch_of, loss_of, make_odd
from tests.engine.team import Team

CONFIG = {
    "train_micro_batch_size_per_gpu": 4,
    "gradient_accumulation_steps": 2,
    "gradient_clipping": 1.0,
    "zero_optimization": {"stage": 2},
    "optimizer": {"type": "AdamW", "params": {"lr": 0.01}},
    "scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 4}},
}


class Listener:
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.steps: list[StepFacts] = []
        self.collectives = 0
        self.gradients = 0

    def step_began(self, step: int) -> None:
        assert step == len(self.steps)

    def gradients_ready(self) -> None:
        self.gradients += 1

    def step_ended(self, facts: StepFacts) -> None:
        self.steps.append(facts)
        assert self.gradients == len(self.steps)

    def collective_done(self, facts: Any) -> None:
        assert facts.launched_ns <= facts.wait_began_ns <= facts.done_ns
        self.collectives += 1

    def overflow_found(self, facts: Any) -> None:
        raise AssertionError(facts)


def like_deepspeed() -> dict[str, Any]:
    data = TensorDataset(torch.cat([batch_of(step, 0) for step in range(8)]))
    model = make_odd()
    trainer, optimizer, loader, schedule = engine.initialize(
        args=Namespace(local_rank=0),
        model=model,
        model_parameters=[p for p in model.parameters() if p.requires_grad],
        training_data=data,
        config_params=CONFIG,
    )
    listener = Listener()
    trainer.observer = listener
    rates = []
    for _ in range(2):
        for (tokens,) in loader:
            loss = loss_of(trainer, tokens)
            trainer.backward(loss)
            trainer.step()
        rates.append(trainer.get_lr()[0])
    facts = {
        "steps": trainer.global_steps,
        "told": len(listener.steps),
        "train_batch": trainer.train_batch_size(),
        "optimizer": type(optimizer).__name__,
        "schedule": type(schedule).__name__,
        "rates": rates,
        "additive": [
            sum(step.phase_ns.values()) == step.wall_ns and step.phase_ns[Phase.BACKWARD] > 0
            for step in listener.steps
        ],
        "data": sum(step.phase_ns[Phase.DATA] for step in listener.steps),
        "norms": [step.gradient_norm for step in listener.steps],
        "collectives": listener.collectives,
    }
    trainer.close()
    return facts


def test_a_deepspeed_script_runs_and_tells_facts(teams: dict[int, Team]) -> None:
    results = teams[2].run(like_deepspeed)
    for facts in results:
        # 32 samples, 2 ranks, 4 each, 2 micro-batches a step, 2 epochs.
        assert facts["steps"] == facts["told"] == 4
        assert facts["train_batch"] == 16
        assert (facts["optimizer"], facts["schedule"]) == ("AdamW", "WarmupLR")
        assert facts["rates"][0] < facts["rates"][1]
        assert all(facts["additive"]) and facts["data"] > 0
        assert facts["collectives"] > 0
    assert results[0]["norms"] == results[1]["norms"]


SCRIPT = """
import json, os, sys, torch, engine
from tests.engine.models import make_odd, loss_of, batch_of
model = make_odd()
trainer, *_ = engine.initialize(model=model, config=json.loads(sys.argv[1]))
for step in range(2):
    trainer.backward(loss_of(trainer, batch_of(step, trainer.global_rank)))
    trainer.step()
if trainer.global_rank == 0:
    print("world", trainer.world_size, "steps", trainer.global_steps)
"""


@pytest.mark.parametrize(
    ("launcher", "world"),
    [
        ([], 1),
        (["-m", "torch.distributed.run", "--nproc-per-node=2", "--standalone"], 2),
    ],
)
def test_starts_from_python_and_from_torchrun(
    tmp_path: Path, launcher: list[str], world: int
) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    plain = {**CONFIG, "gradient_accumulation_steps": 1}
    root = str(Path(__file__).parents[2])
    done = subprocess.run(
        [sys.executable, *launcher, str(script), json.dumps(plain)],
        env={**os.environ, "PYTHONPATH": root, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["world", str(world), "steps", "2"]


def frozen_and_whole() -> tuple[list[str], bool]:
    model = Odd()
    trainer, *_ = engine.initialize(
        model=model, config={**CONFIG, "zero_optimization": {"stage": 3}}
    )
    state = trainer.consolidated_state_dict(torch.bfloat16)
    right = all(value.dtype == torch.bfloat16 for value in state.values())
    trainer.close()
    return list(state), right


def test_the_whole_model_is_on_rank_zero_alone(teams: dict[int, Team]) -> None:
    (names, right), (none, _) = teams[2].run(frozen_and_whole)
    assert names == list(Odd().state_dict()) and right
    assert none == []
