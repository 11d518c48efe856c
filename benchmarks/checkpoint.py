"""How long a checkpoint takes beside a bare write of the same bytes.

`python -m benchmarks.checkpoint`: two ranks, 20.6M parameters, AdamW in bf16, stage 2. By turns: a
save, the part of an asynchronous save that training waits for, a load, and each rank writing as
many bytes to one file with fsync.
"""

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
from collections.abc import Callable
from multiprocessing import get_context
from pathlib import Path
from time import perf_counter
from typing import Any

import torch
import torch.distributed as dist

import engine
from benchmarks.machine import BusyClock, describe_machine
from benchmarks.model import FULL, batches, build_model

RANKS = 2
DEADLINE_S = 600
KINDS = ("bare write", "save", "save behind: blocking", "save behind: in all", "load")


def main() -> int:
    """Measure and print; with `--into` also write JSON and Markdown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--folder", type=Path, help="where checkpoints go; a temporary folder")
    parser.add_argument("--into", type=Path)
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(dir=options.folder))
    try:
        seconds, size_bytes, others = _measure(folder, options.rounds)
    finally:
        shutil.rmtree(folder)
    text = _table(seconds, size_bytes, others)
    print(text)
    if options.into is not None:
        facts = describe_machine()
        lines = "\n".join(f"- {name}: {value}" for name, value in facts.items())
        options.into.mkdir(parents=True, exist_ok=True)
        (options.into / "checkpoint.md").write_text(
            f"# Checkpoints beside a bare write\n\n{lines}\n\n```\n{text}\n```\n"
        )
        document = {"machine": facts, "size_bytes": size_bytes, "seconds": seconds}
        (options.into / "checkpoint.json").write_text(json.dumps(document, indent=1) + "\n")
    return 0


def _measure(folder: Path, rounds: int) -> tuple[dict[str, list[float]], int, float]:
    """Seconds by kind, the bytes of one checkpoint, and what others took of the machine."""
    busy = BusyClock()
    context = get_context("spawn")
    ours, theirs = context.Pipe()
    os.environ["OMP_NUM_THREADS"] = "1"
    ranks = [
        context.Process(target=_rank, args=(rank, folder, rounds, theirs), daemon=True)
        for rank in range(RANKS)
    ]
    for rank in ranks:
        rank.start()
    if not ours.poll(DEADLINE_S):
        sys.exit(f"the ranks did not answer in {DEADLINE_S} s")
    seconds, size_bytes = ours.recv()
    others = busy.others_share()
    ours.send("go home")
    for rank in ranks:
        rank.join(DEADLINE_S)
    return seconds, size_bytes, others


def _rank(rank: int, folder: Path, rounds: int, pipe: Any) -> None:
    torch.set_num_threads(1)
    store = f"file://{folder}/store"
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=RANKS)
    trainer = _trained()
    saves = folder / "checkpoints"
    trainer.save_checkpoint(saves, tag="once")
    size_bytes = sum(each.stat().st_size for each in (saves / "once").glob("*.data"))
    own = torch.zeros((saves / "once" / f"rank_{rank:05d}.data").stat().st_size, dtype=torch.uint8)
    seconds: dict[str, list[float]] = {kind: [] for kind in KINDS}

    def bare() -> None:
        with (folder / f"bare_{rank}").open("wb", buffering=0) as file:
            rest = memoryview(own.numpy())  # type: ignore[arg-type]
            while rest:
                rest = rest[file.write(rest) :]
            os.fsync(file.fileno())
        dist.barrier()

    for _ in range(rounds):
        (folder / f"bare_{rank}").unlink(missing_ok=True)
        seconds["bare write"].append(_timed(bare))
        seconds["save"].append(_timed(lambda: trainer.save_checkpoint(saves, "at once")))
        dist.barrier()
        began = perf_counter()
        blocking = _timed(lambda: trainer.save_checkpoint(saves, "behind", asynchronous=True))
        seconds["save behind: blocking"].append(blocking)
        trainer.checkpoints.finish()
        dist.barrier()
        seconds["save behind: in all"].append(perf_counter() - began)
        seconds["load"].append(_timed(lambda: trainer.load_checkpoint(saves)))
    trainer.close()
    if rank == 0:
        pipe.send((seconds, size_bytes))
        pipe.recv()
    dist.barrier()


def _trained() -> Any:
    model = build_model(FULL, seed=0)
    trainer, *_ = engine.initialize(
        model=model,
        config={
            "train_micro_batch_size_per_gpu": 1,
            "zero_optimization": {"stage": 2},
            "bf16": {"enabled": True},
            "optimizer": {"type": "AdamW", "params": {"lr": 1e-4}},
        },
    )
    tokens, targets = next(batches(FULL, 1, seed=0, rank=trainer.global_rank))
    trainer.backward(trainer(tokens, targets))
    trainer.step()
    return trainer


def _timed(action: Callable[[], object]) -> float:
    dist.barrier()
    began = perf_counter()
    action()
    return perf_counter() - began


def _table(seconds: dict[str, list[float]], size_bytes: int, others: float) -> str:
    bare = statistics.median(seconds["bare write"])
    lines = [f"{'':24}{'median s':>10}{'min s':>9}{'max s':>9}{'MB/s':>8}{'× bare':>8}"]
    for kind, all_s in seconds.items():
        median = statistics.median(all_s)
        lines.append(
            f"{kind:24}{median:10.3f}{min(all_s):9.3f}{max(all_s):9.3f}"
            f"{size_bytes / median / 1e6:8.0f}{median / bare:8.2f}"
        )
    rounds = len(seconds["save"])
    lines.append(
        f"{size_bytes / 1e6:.0f} MB by {RANKS} ranks, {rounds} rounds by turns;"
        f" other processes took {others:.0%} of the machine"
    )
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
