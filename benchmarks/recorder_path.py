"""What the recorder takes of a step, alone: its own code on made facts, without an engine's noise.

    python -m benchmarks.recorder_path [--steps 3000]

A step of stage 3 of the tiny model as the engine tells it: its collectives, its ledger, its facts,
written as real rows to a real directory. Prints the processor time of the fastest and the median
step, in all and part by part. It needs no second process and repeats to a few per cent.
"""

import argparse
import tempfile
from pathlib import Path
from statistics import median
from time import thread_time_ns
from types import SimpleNamespace
from typing import Any

import torch

from engine.facts import CollectiveFacts, StepFacts
from engine.kept import KeptActivations
from engine.observer import Recorder
from engine.tracing import PhaseClock
from probe.record.rank import RankWriter
from probe.schema.documents import Header
from probe.schema.vocabulary import CollectiveOp, MemoryCategory, Phase

GATHERS, REDUCTIONS = 8, 5
SWEEP_BYTES = 64 << 20
FIRST_MEASURED = 60
"""After the first steps, whose ledger is taken anew."""


def collectives_of(step: int) -> list[CollectiveFacts]:
    """Those of one step, as stage 3 makes them."""
    kinds = [(CollectiveOp.ALL_GATHER, Phase.FORWARD)] * (GATHERS // 2)
    kinds += [(CollectiveOp.ALL_GATHER, Phase.BACKWARD)] * (GATHERS // 2)
    kinds += [(CollectiveOp.REDUCE_SCATTER, Phase.BACKWARD)] * REDUCTIONS
    kinds += [
        (CollectiveOp.ALL_GATHER, Phase.OPTIMIZER),
        (CollectiveOp.ALL_GATHER, Phase.GATHER_WAIT),
    ]
    begin = step * 6_000_000
    return [
        CollectiveFacts(
            sequence=step * len(kinds) + place,
            op=op,
            phase=phase,
            block=f"blocks.{place}",
            dtype="bf16",
            logical_bytes=131_072,
            wire_bytes=65_536,
            launched_ns=begin + place * 300_000,
            wait_began_ns=begin + place * 300_000 + 150_000,
            done_ns=begin + place * 300_000 + 200_000,
        )
        for place, (op, phase) in enumerate(kinds)
    ]


def facts_of(step: int) -> StepFacts:
    """What the engine says at the end of one."""
    return StepFacts(
        step=step,
        applied=True,
        skip_reason=None,
        loss=lambda: 2.0 + 1 / (step + 1),
        gradient_norm=0.731,
        clip_coefficient=1.0,
        loss_scale_used=1.0,
        loss_scale_next=1.0,
        hysteresis_left=2,
        learning_rates=(1e-3,),
        micro_batches=1,
        began_ns=step * 6_000_000,
        recompute_ns=0,
        wall_ns=6_000_000,
        phase_ns=dict.fromkeys(Phase, 650_000),
    )


def made_engine() -> Any:
    """As much of an engine as the recorder asks for."""
    held = dict.fromkeys(MemoryCategory, 1_000_000)
    module = torch.nn.Linear(4, 4)
    return SimpleNamespace(
        world_size=2,
        global_rank=0,
        module=module,
        kept=KeptActivations(module),
        clock=PhaseClock(),
        device=torch.device("cpu"),
        config=SimpleNamespace(batch=SimpleNamespace(micro=4)),
        ledger=lambda: SimpleNamespace(held_bytes=held, away_bytes={}),
    )


def measure(folder: Path, steps: int, *, cold: bool) -> dict[str, list[int]]:
    """Processor time of each part of each measured step, in nanoseconds.

    `cold` sweeps the caches before each step, as the computing of a real one does.
    """
    sweep = torch.zeros(SWEEP_BYTES // 4 if cold else 1)
    writer = RankWriter(folder, Header(rank=0))
    session = SimpleNamespace(step=0, tokens=None, header=Header(rank=0), before_end=[])
    recorder = Recorder(
        session,  # type: ignore[arg-type]
        writer,
        made_engine(),
        backend_op=lambda op: op,
        profiler=None,
        numerics=None,
    )
    parts: dict[str, list[int]] = {"collectives": [], "rows": [], "all": []}
    told = [collectives_of(step) for step in range(50)]
    for step in range(steps):
        facts, calls = facts_of(step), told[step % 50]
        sweep.add_(1)
        began = thread_time_ns()
        recorder.step_began(step)
        for call in calls:
            recorder.collective_done(call)
        recorder.gradients_ready()
        between = thread_time_ns()
        recorder.step_ended(facts)
        ended = thread_time_ns()
        if step >= FIRST_MEASURED and step % 50 != 3 and step % 20:
            parts["collectives"].append(between - began)
            parts["rows"].append(ended - between)
            parts["all"].append(ended - began)
    writer.close()
    return parts


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=3000)
    options = parser.parse_args()
    for cold in (False, True):
        steps = options.steps // 10 if cold else options.steps
        with tempfile.TemporaryDirectory() as folder:
            for part, times in measure(Path(folder), steps, cold=cold).items():
                least, usual = min(times) / 1e3, median(times) / 1e3
                kind = "cold" if cold else "warm"
                print(f"{kind} {part:12} fastest {least:6.1f} µs   median {usual:6.1f} µs")


if __name__ == "__main__":
    main()
