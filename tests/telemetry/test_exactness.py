"""The rows of every step: phases that sum, moments that join, bytes that are the closed form's."""

import math
import time
from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader

import engine
from probe.schema.tables import COMM, COMM_CALLS, MEMORY, STEPS
from probe.schema.vocabulary import CollectiveOp, Phase, Precision
from tests.engine.cases import config
from tests.engine.models import batch_of, loss_of
from tests.engine.team import Team
from tests.telemetry.recorded import WORDS, Tied, begin, micro_batch, recording_into, rows_of

THRESHOLD = 100
SAMPLED_STEP = 3
PHASES = [f"{phase.value}_ns" for phase in Phase]
WAITS = ("gather_wait_ns", "reduce_wait_ns")


def some_steps(run_dir: str, stage: int, precision: Precision, steps: int) -> dict[str, Any]:
    with recording_into(run_dir):
        trainer = begin(
            config(
                stage,
                precision=precision,
                clip_norm=0.01,
                zero={"reduce_bucket_elements": 3000, "persistence_threshold_elements": THRESHOLD},
            )
        )
        losses = [micro_batch(trainer, number) for number in range(steps)]
        layouts = [bucket.layout for bucket in trainer._stage._reducer.buckets] if stage else []
        trainer.close()
    sizes = [parameter.numel() for parameter in Tied().parameters()]
    return {
        "losses": losses,
        "padding": sum(layout.padded_elements - layout.elements for layout in layouts),
        "resident": sum(size for size in sizes if size <= THRESHOLD),
        "parameters": sum(sizes),
    }


@pytest.mark.parametrize("stage", [0, 1, 2, 3])
@pytest.mark.parametrize(("world", "precision"), [(2, Precision.BF16), (4, Precision.FP32)])
def test_a_step_is_explained(
    teams: dict[int, Team], tmp_path: Path, world: int, stage: int, precision: Precision
) -> None:
    steps = 4
    facts, *_ = teams[world].run(
        some_steps, run_dir=str(tmp_path), stage=stage, precision=precision, steps=steps
    )
    step_rows, comm_rows = rows_of(tmp_path, STEPS), rows_of(tmp_path, COMM)
    assert len(step_rows) == steps * world
    for row in step_rows:
        assert sum(row[phase] for phase in PHASES) == row["wall_ns"]
        assert (row["samples"], row["tokens"], row["micro_batches"]) == (4, 20, 1)
        assert row["grad_norm"] > 0.01
        assert row["clip_coefficient"] == pytest.approx(0.01 / row["grad_norm"], rel=1e-3)
    for rank in range(world):
        mine = [row for row in step_rows if row["rank"] == rank]
        for row, following in pairwise(mine):
            assert row["begin_ns"] + row["wall_ns"] == following["begin_ns"]
    assert [row["loss"] for row in step_rows if row["rank"] == 0] == pytest.approx(facts["losses"])

    width, word = (4, "fp32") if precision is Precision.FP32 else (2, "bf16")
    whole = facts["parameters"]
    # Stage 0 pads its buckets too; here every bucket divides by the world.
    reduced = (whole + facts["padding"]) * width
    gathers = 2 * (whole - facts["resident"]) + facts["resident"] if stage == 3 else whole
    for step in step_rows:
        mine = [
            row for row in comm_rows if (row["rank"], row["step"]) == (step["rank"], step["step"])
        ]
        payload = [row for row in mine if row["dtype"] == word]
        others = [row for row in mine if row["dtype"] != word and row["phase"] == Phase.OPTIMIZER]
        assert [row["dtype"] for row in others] == ["int64"]
        logical: dict[str, int] = defaultdict(int)
        for row in payload:
            assert row["wire_bytes"] * world == row["logical_bytes"] * (world - 1)
            assert row["exposed_ns"] <= row["busy_ns"]
            logical[row["op"]] += row["logical_bytes"]
        assert logical[CollectiveOp.REDUCE_SCATTER] == reduced
        assert logical[CollectiveOp.ALL_GATHER] == pytest.approx(gathers * width, rel=0.002)
        # Compute stood still in collectives for no longer than the waits say that it did.
        assert sum(row["exposed_ns"] for row in payload) <= sum(step[wait] for wait in WAITS)
        assert others[0]["exposed_ns"] <= step["optimizer_ns"]

    # The ledger is taken when most is held: gradients whole, or this rank's share of them.
    share = world if stage >= 2 else 1
    states = world if stage >= 1 else 1
    for row in rows_of(tmp_path, MEMORY):
        grads, moments = row["device_grads_bytes"], row["device_optimizer_states_bytes"]
        assert grads == pytest.approx(whole * width / share, rel=0.01)
        assert moments == pytest.approx(8 * whole / states, rel=0.01)


def with_a_delay(run_dir: str, stage: int, slow_rank: int, delay_s: float) -> None:
    with recording_into(run_dir):
        trainer = begin(config(stage))

        def dawdle(*_: Any) -> None:
            if trainer.global_rank == slow_rank and trainer.global_steps == SAMPLED_STEP:
                time.sleep(delay_s)

        trainer.module.blocks[1].register_forward_pre_hook(dawdle)
        for number in range(SAMPLED_STEP + 1):
            micro_batch(trainer, number)
        trainer.close()


@pytest.mark.parametrize("stage", [2, 3])
def test_a_slow_rank_is_the_one_that_the_others_wait_for(
    teams: dict[int, Team], tmp_path: Path, stage: int
) -> None:
    delay_s = 0.6
    teams[2].run(with_a_delay, run_dir=str(tmp_path), stage=stage, slow_rank=1, delay_s=delay_s)
    took: dict[int, dict[int, int]] = defaultdict(dict)
    for row in rows_of(tmp_path, COMM_CALLS):
        assert row["step"] == SAMPLED_STEP
        took[row["sequence"]][row["rank"]] = row["end_ns"] - row["start_ns"]
    assert all(len(by_rank) == 2 for by_rank in took.values())
    # The shortest duration of a collective is its transfer; what a rank spent beyond it is waiting.
    waited = {
        rank: sum(by_rank[rank] - min(by_rank.values()) for by_rank in took.values())
        for rank in (0, 1)
    }
    assert min(waited, key=lambda rank: waited[rank]) == 1
    assert waited[0] > delay_s / 3 * 1e9
    slow_step = {
        row["rank"]: row for row in rows_of(tmp_path, STEPS) if row["step"] == SAMPLED_STEP
    }
    assert sum(slow_step[0][wait] for wait in WAITS) > delay_s / 3 * 1e9
    assert slow_step[1]["forward_ns"] > delay_s * 1e9


def with_own_batches(run_dir: str) -> None:
    class Slow(torch.utils.data.Dataset):  # type: ignore[type-arg]
        def __len__(self) -> int:
            return 16

        def __getitem__(self, at: int) -> torch.Tensor:
            time.sleep(0.02)
            return batch_of(at, 0, size=1, words=WORDS)[0]

    with recording_into(run_dir):
        trainer = begin(config(1, accumulation=2))
        for number, tokens in enumerate(DataLoader(Slow(), batch_size=4)):
            logits = trainer(tokens)
            time.sleep(0.05)  # The script computes its loss.
            trainer.backward(logits.float().logsumexp(-1).mean())
            with engine.annotate("checkpoint"):
                time.sleep(0.03)
            if number == 3:
                engine.log(tokens=7, accuracy=0.5)
            trainer.step()
        trainer.close()


def test_the_time_of_the_script_goes_where_it_belongs(
    teams: dict[int, Team], tmp_path: Path
) -> None:
    teams[1].run(with_own_batches, run_dir=str(tmp_path))
    first, second = rows_of(tmp_path, STEPS)
    for row in (first, second):
        assert row["data_ns"] > 2 * 4 * 0.02e9
        assert row["forward_ns"] > 2 * 0.05e9
        assert row["checkpoint_ns"] > 2 * 0.03e9
        assert row["samples"] == 8
    assert (first["tokens"], second["tokens"]) == (40, 7)


def evaluated(run_dir: str) -> None:
    with recording_into(run_dir):
        trainer = begin(config(1, scale=None, precision=Precision.FP32))
        micro_batch(trainer, 0)
        trainer.eval()
        with torch.no_grad():
            loss_of(trainer, batch_of(1, 0, words=WORDS))
        trainer.train()
        for factor in (math.inf, math.nan):
            loss = loss_of(trainer, batch_of(1, 0, words=WORDS))
            (gradient,) = (
                p for name, p in trainer.module.named_parameters() if name == "embed.weight"
            )
            handle = gradient.register_hook(lambda g, by=factor: g.abs().add(1) * by)
            trainer.backward(loss)
            trainer.step()
            handle.remove()
        trainer.close()


def test_norms_of_skipped_steps_say_what_was_wrong(teams: dict[int, Team], tmp_path: Path) -> None:
    teams[2].run(evaluated, run_dir=str(tmp_path))
    for rank in (0, 1):
        good, infinite, undefined = (row for row in rows_of(tmp_path, STEPS) if row["rank"] == rank)
        assert good["samples"] == infinite["samples"] == 4, "evaluation consumes nothing"
        assert math.isfinite(good["grad_norm"])
        assert infinite["grad_norm"] == math.inf and infinite["skipped"]
        assert math.isnan(undefined["grad_norm"]) and undefined["skipped"]
        assert infinite["clip_coefficient"] is None
