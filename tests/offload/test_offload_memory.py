"""States on disk are not in memory: the peak of a process falls by their share."""

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PARAMETERS = 40_000_000

_PROGRAM = """
import json, sys
import torch
from torch import nn
import engine
from probe.schema.vocabulary import MemoryCategory, Tier

torch.set_num_threads(1)
torch.manual_seed(0)
device, folder, side = sys.argv[1], sys.argv[2], 2000
model = nn.Sequential(*(nn.Linear(side, side, bias=False) for _ in range(10)))
trainer, *_ = engine.initialize(
    model=model,
    model_parameters=model.parameters(),
    config={
        "train_micro_batch_size_per_gpu": 1,
        "bf16": {"enabled": True},
        "optimizer": {"type": "AdamW", "params": {"lr": 1e-4}},
        "zero_optimization": {
            "stage": 2,
            "sub_group_size": 500_000,
            "offload_optimizer": {
                "device": device,
                "nvme_path": folder,
                "pipeline_read": True,
                "pipeline_write": True,
            },
        },
    },
)
for step in range(3):
    loss = trainer(torch.ones(1, side)).float().square().mean()
    trainer.backward(loss)
    trainer.step()
with open("/proc/self/status") as status:
    lines = dict(line.split(":", 1) for line in status)
away = trainer.ledger().away_bytes
print(json.dumps({
    "peak_bytes": int(lines["VmHWM"].split()[0]) * 1024,
    "loss": float(loss.detach()),
    "disk_bytes": sum(size for (tier, _), size in away.items() if tier is Tier.DISK),
    "buffer_bytes": away.get((Tier.HOST, MemoryCategory.COMM_BUFFERS), 0),
}))
"""


def trained(device: str, folder: Path) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", _PROGRAM, device, str(folder)],
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=150,
    )
    assert done.returncode == 0, done.stderr
    result: dict[str, float] = json.loads(done.stdout)
    return result


def test_the_peak_falls_by_most_of_what_the_states_take(tmp_path: Path) -> None:
    states_bytes = PARAMETERS * 12
    plain, away = trained("none", tmp_path), trained("nvme", tmp_path)
    assert away["disk_bytes"] == states_bytes
    assert away["buffer_bytes"] < states_bytes / 10
    assert plain["peak_bytes"] - away["peak_bytes"] >= 0.8 * states_bytes
    assert away["loss"] == plain["loss"]
    assert list(tmp_path.iterdir()) == []
