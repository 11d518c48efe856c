"""What offload costs and saves: `python -m benchmarks.offload` [table] [deepspeed] [disk].

table       stage × offload on 2 ranks: step time by turns, bytes on each tier, exposed transfers
deepspeed   beside DeepSpeed's CPU offload of the optimizer, by turns
disk        one rank whose states are 2 GB, with and without them on disk: peak, and step time
            beside what the disk was measured to allow when it reads and writes at once
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.interleave import Plan, Race, race
from benchmarks.machine import describe_machine
from benchmarks.setting import OFFLOADS, Setting
from benchmarks.summary import compare, summarise
from benchmarks.table import render
from probe.schema.vocabulary import Precision

PARTS = ("table", "deepspeed", "disk")
MB = 1e6


def main(arguments: list[str] | None = None) -> int:
    """Run the parts asked for and print each as it comes."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.offload", description=__doc__)
    parser.add_argument("parts", nargs="*", choices=PARTS, default=PARTS)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--stage", type=int, choices=(1, 2, 3), default=2, help="of the race")
    parser.add_argument("--into", type=Path, help="Markdown file for all that was printed")
    options = parser.parse_args(arguments)
    plan = Plan(warmup_steps=3, rounds=options.rounds, turn_steps=3)
    sections: list[str] = []
    makers = {
        "table": lambda: stages_by_offload(plan),
        "deepspeed": lambda: beside_deepspeed(plan, options.stage),
        "disk": states_on_disk,
    }
    for part in options.parts:
        sections.append(makers[part]())
        print(f"{sections[-1]}\n", flush=True)
    if options.into is not None:
        facts = "\n".join(f"- {name}: {value}" for name, value in describe_machine().items())
        body = "\n\n".join(f"```\n{section}\n```" for section in sections)
        options.into.write_text(f"# Offload\n\n{facts}\n\n{body}\n")
    return 0


def stages_by_offload(plan: Plan) -> str:
    """One line a stage and offload; ratios are to the same stage without."""
    lines = [
        f"{'stage':5} {'offload':15} {'ms':>7} {'ratio':>6} {'interval':>11} {'device':>8}"
        f" {'host':>8} {'disk':>8} {'moved':>8} {'exposed':>8}"
    ]
    for stage in (1, 2, 3):
        setting = Setting(precision=Precision.BF16, stage=stage)
        offloads = [name for name in OFFLOADS if stage == 3 or not name.startswith("params")]
        finished = race([f"zeroprobe@{name}" for name in offloads], setting, plan, _silent)
        lines += list(_lines(finished, offloads))
    lines.append("MB of model states and buffers by the ledger on rank 0; moved: MB a step to and")
    lines.append("from disk or host; exposed: ms a step in which compute stood still for it.")
    return "\n".join(lines)


def beside_deepspeed(plan: Plan, stage: int) -> str:
    """Both with the optimizer on the host."""
    setting = Setting(precision=Precision.BF16, stage=stage)
    names = ["zeroprobe@optimizer-cpu", "deepspeed@optimizer-cpu"]
    finished = race(names, setting, plan, _silent)
    ratio = compare(finished.records[names[0]], finished.records[names[1]])
    return (
        f"{render(finished)}\n"
        f"ours / DeepSpeed, optimizer on the host, stage {stage}: {ratio.value:.2f}"
        f" ({ratio.low:.2f}-{ratio.high:.2f}) [0.90]"
    )


def states_on_disk() -> str:
    """Peak resident memory and step time of one rank, states in memory and on disk."""
    with TemporaryDirectory() as folder:
        turns = [(device, _alone(device, folder)) for device in ("none", "nvme", "nvme", "none")]
    told = {
        # Of two turns the one that others on the machine disturbed less.
        device: min((each for name, each in turns if name == device), key=lambda t: t["step_ms"])
        for device in ("none", "nvme")
    }
    plain, disk = told["none"], told["nvme"]
    fell = (plain["peak_bytes"] - disk["peak_bytes"]) / plain["states_bytes"]
    update_ms = plain["optimizer_ms"]
    allowed_ms = disk["compute_ms"] + max(disk["disk_ms"], update_ms)
    return f"""\
states {plain["states_bytes"] / MB:,.0f} MB, bf16, stage 2, one rank, one thread
peak     {plain["peak_bytes"] / MB:,.0f} MB resident with states in memory,
         {disk["peak_bytes"] / MB:,.0f} MB with states on disk: fell by {fell:.0%} of them [80 %]
step     {plain["step_ms"]:,.0f} ms in memory, {disk["step_ms"]:,.0f} ms on disk,
         of which {disk["wait_ms"]:,.0f} ms stood still for the disk
moved    {disk["moved_bytes"] / MB:,.0f} MB a step;
         to read and write as much at once takes the disk alone {disk["disk_ms"]:,.0f} ms
allowed  {allowed_ms:,.0f} ms: {disk["compute_ms"]:,.0f} before the update,
         and the longer of disk and update in memory ({update_ms:,.0f})
ratio    {disk["step_ms"] / allowed_ms:.2f} [1.30]"""


def _lines(finished: Race, offloads: list[str]) -> Iterator[str]:
    base = finished.records["zeroprobe@none"]
    for name in offloads:
        record = finished.records[f"zeroprobe@{name}"]
        ratio = compare(record, base)
        held = _held(replace(finished.setting, offload=name))
        yield (
            f"{finished.setting.stage:5} {name:15} {summarise(record).median_ns / 1e6:7.1f}"
            f" {ratio.value:6.2f} {f'{ratio.low:.2f}-{ratio.high:.2f}':>11}"
            f" {held['device'] / MB:8.1f} {held['host'] / MB:8.1f} {held['disk'] / MB:8.1f}"
            f" {held['moved_bytes'] / MB:8.1f} {held['exposed_ms']:8.1f}"
        )


def _held(setting: Setting) -> dict[str, float]:
    """Bytes on every tier and transfers a step, from a short run of its own."""
    return _apart(
        {"setting": {"stage": setting.stage, "offload": setting.offload, "shape": setting.shape}},
        ranks=setting.ranks,
    )


def _alone(device: str, folder: str) -> dict[str, float]:
    return _apart({"device": device, "folder": folder}, ranks=1)


def _apart(order: dict[str, Any], *, ranks: int) -> dict[str, float]:
    """What rank 0 of a fresh team prints last."""
    with TemporaryDirectory() as folder:
        started = [
            subprocess.Popen(
                [sys.executable, "-m", "benchmarks.offload_rank", json.dumps(order)],
                env=_environment(rank, ranks, folder),
                stdout=subprocess.PIPE,
                text=True,
            )
            for rank in range(ranks)
        ]
        printed = [process.communicate(timeout=900)[0] for process in started]
    if any(process.returncode for process in started):
        raise RuntimeError(f"a rank failed in {order}")
    told: dict[str, float] = json.loads(printed[0].strip().splitlines()[-1])
    return told


def _environment(rank: int, ranks: int, folder: str) -> dict[str, str]:
    return {
        **os.environ,
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(ranks),
        "OMP_NUM_THREADS": "1",
        "GLOO_SOCKET_IFNAME": "lo",
        "BENCHMARK_STORE": str(Path(folder) / "store"),
        "TMPDIR": folder,
    }


def _silent(text: str) -> None:
    del text


if __name__ == "__main__":
    sys.exit(main())
