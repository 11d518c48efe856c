"""What a person asked `probe run` for, and the processes and variables that it comes to."""

import importlib.util
import os
import sys
import uuid
from dataclasses import dataclass, field
from pathlib import Path

from probe.errors import UsageError
from probe.schema.documents import ProfileWindow
from probe.schema.handover import HANDOVER_VARIABLE, NUMERICS_EVERY_STEPS, Handover, RunFlags

HANG_TIMEOUT_S = 300.0
"""Ranks that have not moved for so long are told of."""


@dataclass(frozen=True, kw_only=True)
class RunRequest:
    """One call of `probe run`, checked."""

    script: Path
    arguments: tuple[str, ...] = ()
    processes: int = 1
    nodes: str = "1"
    node_rank: int = 0
    rendezvous: str | None = None
    max_restarts: int = 0
    config: Path | None = None
    flags: RunFlags = field(default_factory=RunFlags)
    name: str = ""
    tags: tuple[str, ...] = ()
    notes: str = ""
    runs_dir: Path = Path("runs")
    record: bool = True
    parent: str = ""
    """The run that the checkpoint to resume from belongs to."""
    profile: ProfileWindow | None = None
    numerics_every: int = NUMERICS_EVERY_STEPS
    expected_steps: int | None = None
    """As the user says; no one else knows."""
    hang_timeout_s: float = HANG_TIMEOUT_S
    end_on_hang: bool = False


def check_request(request: RunRequest) -> None:
    """Refuse what cannot work before anything is started."""
    if not request.script.is_file():
        raise UsageError(f"There is no script {request.script}.")
    if request.config is not None and not request.config.is_file():
        raise UsageError(f"There is no configuration {request.config}.")
    if request.processes < 1:
        raise UsageError(f"--nproc is {request.processes}; at least one process must run.")
    if importlib.util.find_spec("torch") is None:
        raise UsageError(
            "`probe run` needs the engine, and torch is not installed here; "
            "pip install 'zeroprobe[engine]'."
        )


def command_of(request: RunRequest, report: Path) -> list[str]:
    """The process that starts the ranks, watches them and reports how they ended."""
    spread = ["--nproc-per-node", str(request.processes), "--nnodes", request.nodes]
    if request.rendezvous:
        spread += ["--rdzv-backend", "c10d", "--rdzv-endpoint", request.rendezvous]
    else:
        # On a port of its own: before torch 2.13 two launches on a machine met on one otherwise.
        spread += ["--standalone"]
    spread += ["--max-restarts", str(request.max_restarts)]
    worker = ["-m", "engine.worker", str(request.script), *request.arguments]
    return [sys.executable, "-m", "engine.agent", str(report), *spread, *worker]


def environment_of(
    request: RunRequest, run_dir: Path | None, word_file: Path | None = None
) -> dict[str, str]:
    """The variables of the ranks: ours, and a fair share of the cores unless someone chose.

    Without a run directory and with a word file the ranks find the directory, and leave word.
    """
    handover = Handover(
        run_dir=str(run_dir.resolve()) if run_dir else None,
        node=request.node_rank,
        many_nodes=request.nodes != "1",
        runs_dir=str(request.runs_dir.resolve()) if word_file else None,
        word_file=str(word_file) if word_file else None,
        job=run_dir.name if run_dir else uuid.uuid4().hex,
        config_path=str(request.config.resolve()) if request.config else None,
        flags=request.flags,
        profile=request.profile,
        numerics_every=request.numerics_every,
        hang_after_s=request.hang_timeout_s,
    )
    environment = {**os.environ, HANDOVER_VARIABLE: handover.to_text()}
    # What the profiler says of itself is nothing that a user could act on.
    environment.setdefault("KINETO_LOG_LEVEL", "99")
    environment.setdefault("OMP_NUM_THREADS", str(max(1, available_cores() // request.processes)))
    return environment


def available_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def default_processes() -> int:
    """A rank for each GPU; without one two ranks, so that there is communication to look at."""
    gpus = len(list(Path("/proc/driver/nvidia/gpus").glob("*")))
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        gpus = min(gpus, len([item for item in visible.split(",") if item.strip()]))
    return gpus or min(2, available_cores())
