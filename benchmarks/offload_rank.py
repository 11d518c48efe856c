"""One rank of the offload benchmark's own measurements; prints one line of JSON.

{"setting": {...}}               a short run of the GPT: bytes by tier, transfers a step
{"device": ..., "folder": ...}   a model whose states are 2 GB, alone
"""

import json
import os
import statistics
import sys
import threading
from pathlib import Path
from time import monotonic_ns
from typing import Any

import torch
from torch import distributed as dist
from torch import nn

import engine
from benchmarks.model import batches, build_model
from benchmarks.setting import Setting, zero_config
from engine.facts import OffloadFacts, Silence, StepFacts
from engine.storage.buffers import PAGE_BYTES, HostBuffers
from engine.storage.disk_file import DiskFile
from probe.schema.vocabulary import Phase, Precision, Tier

SIDE, LAYERS = 2048, 40
BEFORE_THE_UPDATE = set(Phase) - {Phase.OPTIMIZER, Phase.OFFLOAD_WAIT}
RECORD_BYTES = 12 << 20
STEPS = 6


class Listener(Silence):
    """Keeps what each step told."""

    def __init__(self) -> None:
        self.steps: list[StepFacts] = []

    def step_ended(self, facts: StepFacts) -> None:
        """Keep it."""
        self.steps.append(facts)

    def median_ms(self, *phases: Phase) -> float:
        """Of the sum of these phases, over the steps after the first two; of all without any."""
        spent = [
            sum(facts.phase_ns[phase] for phase in phases) if phases else facts.wall_ns
            for facts in self.steps[2:]
        ]
        return statistics.median(spent) / 1e6

    def offload(self) -> list[list[OffloadFacts]]:
        """The transfers of the steps after the first two."""
        return [list(facts.offload) for facts in self.steps[2:]]


def main() -> None:
    """Do what the order says."""
    order = json.loads(sys.argv[1])
    torch.set_num_threads(1)
    torch.manual_seed(0)
    print(json.dumps(_short(order["setting"]) if "setting" in order else _alone(order)))


def _short(chosen: dict[str, Any]) -> dict[str, float]:
    dist.init_process_group(
        "gloo",
        init_method=f"file://{os.environ['BENCHMARK_STORE']}",
        rank=int(os.environ["RANK"]),
        world_size=int(os.environ["WORLD_SIZE"]),
    )
    setting = Setting(precision=Precision.BF16, **chosen)
    model = build_model(setting.model_shape, setting.seed)
    trainer, *_ = engine.initialize(
        model=model, model_parameters=model.parameters(), config=zero_config(setting)
    )
    trainer.observer = listener = Listener()
    supply = batches(setting.model_shape, setting.micro_batch, setting.seed, dist.get_rank())
    for _, batch in zip(range(STEPS), supply, strict=False):
        trainer.backward(trainer(*batch))
        trainer.step()
    ledger = trainer.ledger()
    held = dict.fromkeys(Tier, 0)
    for (tier, _), size in ledger.away_bytes.items():
        held[tier] += size
    everything = sum(ledger.held_bytes.values())
    steps = listener.offload()
    trainer.close()
    return {
        "device": everything - held[Tier.HOST] - held[Tier.DISK],
        "host": held[Tier.HOST],
        "disk": held[Tier.DISK],
        "moved_bytes": statistics.median(sum(r.moved_bytes for r in step) for step in steps),
        "exposed_ms": statistics.median(sum(r.exposed_ns for r in step) for step in steps) / 1e6,
    }


def _alone(order: dict[str, Any]) -> dict[str, float]:
    model = nn.Sequential(*(nn.Linear(SIDE, SIDE, bias=False) for _ in range(LAYERS)))
    config = zero_config(Setting(precision=Precision.BF16, stage=2, micro_batch=1))
    config["zero_optimization"]["offload_optimizer"] = {
        "device": order["device"],
        "nvme_path": order["folder"],
        "pipeline_read": True,
        "pipeline_write": True,
    }
    trainer, *_ = engine.initialize(model=model, model_parameters=model.parameters(), config=config)
    trainer.observer = listener = Listener()
    for _ in range(STEPS):
        loss = trainer(torch.ones(16, SIDE)).float().square().mean()
        trainer.backward(loss)
        trainer.step()
    with Path("/proc/self/status").open() as status:
        lines = dict(line.split(":", 1) for line in status)
    moved = [
        sum(route.moved_bytes for route in step if route.tier is Tier.DISK)
        for step in listener.offload()
    ]
    trainer.close()
    told = {
        "peak_bytes": int(lines["VmHWM"].split()[0]) * 1024,
        "states_bytes": 12 * SIDE * SIDE * LAYERS,
        "step_ms": listener.median_ms(),
        "compute_ms": listener.median_ms(*BEFORE_THE_UPDATE),
        "optimizer_ms": listener.median_ms(Phase.OPTIMIZER),
        "wait_ms": listener.median_ms(Phase.OFFLOAD_WAIT),
        "moved_bytes": statistics.median(moved),
        "disk_ms": 0.0,
    }
    if order["device"] == "nvme":
        told["disk_ms"] = _both_ways_ms(Path(order["folder"]), told["moved_bytes"] / 2)
    return told


def _both_ways_ms(folder: Path, size_bytes: float) -> float:
    """How long the disk takes to write that much while it reads that much; plain records."""
    file = DiskFile(folder, "measured.bin")
    count = round(size_bytes / RECORD_BYTES)
    offsets = [file.room(RECORD_BYTES) for _ in range(count)]
    one, other = (HostBuffers(1).take_beyond(RECORD_BYTES) for _ in range(2))
    payload_bytes = RECORD_BYTES - PAGE_BYTES
    for at, offset in enumerate(offsets):
        file.write(one, payload_bytes, offset=offset, number=at, version=0)

    def write() -> None:
        for offset in offsets:
            os.pwrite(file._descriptor, one.memory, offset)

    spent = []
    for _ in range(3):
        writer = threading.Thread(target=write)
        began_ns = monotonic_ns()
        writer.start()
        for offset in reversed(offsets):
            os.preadv(file._descriptor, [other.memory], offset)
        writer.join()
        spent.append((monotonic_ns() - began_ns) / 1e6)
    file.close()
    return statistics.median(spent)


if __name__ == "__main__":
    main()
