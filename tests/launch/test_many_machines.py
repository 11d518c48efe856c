"""Two launchers, as on two machines: one run, whatever happens to either."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from probe.read.discovery import find_runs
from probe.read.run import Run, check_run, load_run
from probe.schema.layout import node_document, node_output
from probe.schema.vocabulary import RunStatus, Severity
from probe.seal import seal_run

ROOT = Path(__file__).parents[2]
DEADLINE_S = 150

pytestmark = pytest.mark.timeout(3 * DEADLINE_S)

SCRIPT = """
import os, sys, time
import torch
import engine
model = torch.nn.Linear(8, 8)
trainer, *_ = engine.initialize(model=model, model_parameters=model.parameters(),
    config={'train_micro_batch_size_per_gpu': 2,
            'optimizer': {'type': 'AdamW', 'params': {'lr': 1e-3}}})
node = int(os.environ['NODE'])
restarts = int(os.environ['TORCHELASTIC_RESTART_COUNT'])
def step():
    trainer.backward(trainer(torch.ones(2, 8)).square().mean())
    trainer.step()
def steps_without_end():
    for _ in range(10**6):
        step()
        time.sleep(0.02)
step()
step()
print(f'node {node} was here', flush=True)
"""


@dataclass(frozen=True, kw_only=True)
class Machines:
    """Two launchers that were started with the same endpoint."""

    launchers: list[subprocess.Popen[str]]

    def ended(self) -> list[tuple[int, str, str]]:
        """Exit code and output of each."""
        told = []
        for launcher in self.launchers:
            out, err = launcher.communicate(timeout=DEADLINE_S)
            told.append((launcher.returncode, out, err))
        return told


Start = Callable[..., Machines]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    def start(body: str, *words: str, folders: tuple[str, str] = ("runs", "runs")) -> Machines:
        script = tmp_path / "script.py"
        script.write_text(SCRIPT + body)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            endpoint = f"127.0.0.1:{free.getsockname()[1]}"
        paths = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
        launchers = [
            subprocess.Popen(
                [
                    *[sys.executable, "-m", "probe", "run", "--rdzv-endpoint", endpoint],
                    *["--nnodes", "2", "--node-rank", str(node), "--nproc", "1", *words],
                    *["--runs-dir", str(tmp_path / folder), str(script)],
                ],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                cwd=tmp_path,
                env={**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1", "NODE": str(node)},
            )
            for node, folder in enumerate(folders)
        ]
        started.extend(launchers)
        return Machines(launchers=launchers)

    started: list[subprocess.Popen[str]] = []
    yield start
    for launcher in started:
        if launcher.poll() is None:
            launcher.send_signal(signal.SIGINT)
            launcher.communicate(timeout=DEADLINE_S)


def only_run(runs: Path) -> Run:
    (path,) = runs.iterdir()
    return load_run(path)


def when(met: Callable[[], bool]) -> None:
    """Wait for something, and not for ever."""
    deadline_s = time.monotonic() + DEADLINE_S
    while not met():
        assert time.monotonic() < deadline_s, "it never happened"
        time.sleep(0.1)


def both_train(runs: Path) -> bool:
    """Whether both machines have written, launchers included."""
    found = list(runs.iterdir()) if runs.is_dir() else []
    return (
        len(found) == 1
        and len(list(found[0].glob("rank_*/steps.jsonl"))) == 2
        and (found[0] / node_output(1)).is_file()
        and (found[0] / node_output(1)).stat().st_size > 0
    )


def test_one_run_of_two_machines(start: Start, tmp_path: Path) -> None:
    (code, _, told), (other_code, _, other_told) = start("").ended()
    assert (code, other_code) == (0, 0), told + other_told
    run = only_run(tmp_path / "runs")
    assert run.verdict.status is RunStatus.FINISHED
    assert run.ranks == (0, 1)
    assert sorted(header.node for header in run.headers.values()) == [0, 1]
    assert run.manifest.world_size == 2
    assert run.manifest.exit_codes == {"0": 0, "1": 0}
    assert len(run.manifest.hosts) == 2
    assert not check_run(run)
    steps = run.table("steps").table.to_pylist()
    assert [(row["rank"], row["step"]) for row in steps] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert (run.path / "tables/steps.parquet").exists()
    assert "node 0 was here" in (run.path / "output.log").read_text()
    assert "node 1 was here" in (run.path / node_output(1)).read_text()
    assert "probe show" in told and "probe show" not in other_told
    assert str(run.path) in other_told
    (listed,) = find_runs(tmp_path / "runs")
    assert listed.verdict == run.verdict


def test_a_rank_that_fails_on_the_other_machine(start: Start, tmp_path: Path) -> None:
    body = "if node == 1: raise ValueError('boom')\nsteps_without_end()\n"
    (code, _, _), (other_code, _, told) = start(body).ended()
    assert code != 0 and other_code == 1
    assert "ValueError: boom" in told
    run = only_run(tmp_path / "runs")
    assert run.verdict.status is RunStatus.FAILED
    (rank,) = (rank for rank, header in run.headers.items() if header.node == 1)
    assert run.manifest.exit_codes[str(rank)] == 1
    messages = [row["message"] for row in run.table("events", ranks=[rank]).table.to_pylist()]
    assert "ValueError: boom" in messages


def test_the_other_launcher_is_killed(start: Start, tmp_path: Path) -> None:
    # Its ranks outlive it until they print, and then they fail.
    body = "while True:\n    step()\n    print('on', flush=True)\n    time.sleep(0.05)\n"
    machines = start(body)
    when(lambda: both_train(tmp_path / "runs"))
    machines.launchers[1].send_signal(signal.SIGKILL)
    (code, _, told), _ = machines.ended()
    assert code != 0
    assert "machine 1 has not said how it ended" in told
    run = only_run(tmp_path / "runs")
    assert run.verdict.status is RunStatus.FAILED, run.verdict
    assert not [item for item in check_run(run) if item.severity is Severity.ERROR]


def test_interrupted_on_the_first_machine(start: Start, tmp_path: Path) -> None:
    machines = start("steps_without_end()\n")
    when(lambda: both_train(tmp_path / "runs"))
    machines.launchers[0].send_signal(signal.SIGINT)
    (code, _, _), (other_code, _, _) = machines.ended()
    assert code == 130 and other_code != 0
    run = only_run(tmp_path / "runs")
    assert run.verdict.status is RunStatus.INTERRUPTED
    assert (run.path / "tables/steps.parquet").exists()


def test_ranks_that_are_started_anew_stay_in_their_run(start: Start, tmp_path: Path) -> None:
    body = "if node == 1 and not restarts: raise ValueError('once')\nstep()\n"
    machines = start(body, "--max-restarts", "1")
    (code, _, told), (other_code, _, other_told) = machines.ended()
    assert (code, other_code) == (0, 0), told + other_told
    run = only_run(tmp_path / "runs")
    assert run.verdict.status is RunStatus.FINISHED
    assert {header.attempt for header in run.headers.values()} == {1}
    steps = run.table("steps").table.to_pylist()
    assert [row["step"] for row in steps] == 2 * [0, 1, 2]
    assert {row["attempt"] for row in steps} == {1}


def test_folders_that_are_not_shared_are_brought_together(start: Start, tmp_path: Path) -> None:
    (code, _, _), (other_code, _, told) = start("", folders=("here", "there")).ended()
    assert (code, other_code) == (0, 0)
    here, there = only_run(tmp_path / "here"), only_run(tmp_path / "there")
    assert here.name == there.name
    assert (len(here.ranks), len(there.ranks)) == (1, 1)
    assert (there.path / node_document(1)).is_file()
    assert f"rsync -a {there.path}/ MACHINE0:RUNS/{there.name}/" in told
    # WHEN what rsync does is done
    shutil.copytree(there.path, here.path, dirs_exist_ok=True)
    seal_run(here.path)
    whole = load_run(here.path)
    assert whole.verdict.status is RunStatus.FINISHED
    assert [row["step"] for row in whole.table("steps").table.to_pylist()] == [0, 1, 0, 1]
    assert not check_run(whole)


def test_each_machine_has_a_number(tmp_path: Path) -> None:
    words = ["--nnodes", "2", "--rdzv-endpoint", "127.0.0.1:1", "script.py"]
    done = subprocess.run(
        [sys.executable, "-m", "probe", "run", *words],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 2
    assert "--node-rank" in done.stderr
