"""The demo and the samples: recorded by our own commands, and silent about whose machine it was."""

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from probe.errors import ProbeError
from probe.read.discovery import find_runs
from probe.read.run import load_run
from probe.record.host import HOST_VARIABLE
from probe.schema.vocabulary import RunStatus
from sample_runs.anonymous import check, clean
from sample_runs.recordings import DEMO, ROOT, SAMPLES

DEADLINE_S = 300
TINY = ["--steps", "30", "--width", "16", "--layers", "1", "--length", "16", "--batch", "2"]


def call(module: str, *words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", module, *map(str, words)],
        cwd=ROOT,
        env={**os.environ, "SERVE": "0", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
    )


def test_names_are_unique() -> None:
    names = [sample.name for sample in SAMPLES]
    assert len(set(names)) == len(names)


@pytest.mark.slow
@pytest.mark.timeout(DEADLINE_S)
def test_the_demo_records_and_compares(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    done = call("sample_runs.demo", "--runs-dir", runs, "--", *TINY)
    assert done.returncode == 0, done.stderr
    names = [recording.name for recording in DEMO]
    recorded = {run.manifest.name: run for run in find_runs(runs)}
    assert set(recorded) == set(names)
    assert "$ probe compare" in done.stdout
    overflowing = load_run(recorded["fp16-stage2-overflow"].path)
    assert any(row["skipped"] for row in overflowing.table("steps").table.to_pylist())


def test_a_sample_is_recorded_and_names_nobody(tmp_path: Path) -> None:
    into = tmp_path / "samples"
    done = call("sample_runs.record", "--into", into, "--only", "overflow-by-design")
    assert done.returncode == 0, done.stderr
    (run,) = find_runs(into)
    assert run.name == "overflow-by-design"
    assert run.manifest.hosts[0].name == "laptop"
    assert run.manifest.command[:2] == ["probe", "run"]
    assert run.manifest.script == "examples/overflow.py"
    assert {header.host for header in load_run(run.path).headers.values()} == {"laptop"}
    table = (into / "README.md").read_text()
    assert "| `overflow-by-design` | `probe run --name overflow-by-design --nproc 2" in table
    assert table.count("Recorded 20") == 1


@pytest.mark.slow
def test_a_rank_is_killed_on_purpose(tmp_path: Path) -> None:
    done = call("sample_runs.record", "--into", tmp_path, "--only", "killed")
    assert done.returncode == 0, done.stderr
    run = load_run(tmp_path / "killed")
    assert run.verdict.status is RunStatus.KILLED
    steps = run.table("steps").table.to_pylist()
    assert {row["rank"] for row in steps} == {0, 1}
    assert len({row["step"] for row in steps}) >= 25


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    """What a run may hold that tells of a machine."""
    (tmp_path / "rank_00000").mkdir()
    (tmp_path / "output.log").write_text(f"File {ROOT}/train.py\nFile {sys.prefix}/lib/x.py\n")
    return tmp_path


def test_paths_are_taken_out_of_what_was_printed(run_dir: Path) -> None:
    with pytest.raises(ProbeError, match=r"output\.log holds"):
        check(run_dir)
    clean(run_dir, "laptop")
    check(run_dir)
    assert (run_dir / "output.log").read_text() == "File train.py\nFile .venv/lib/x.py\n"


def test_a_name_in_a_packed_trace_is_found(run_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: "node-17")
    clean(run_dir, "laptop")
    trace = run_dir / "rank_00000" / "trace_5.json.gz"
    trace.write_bytes(gzip.compress(json.dumps({"host_name": "node-17"}).encode()))
    with pytest.raises(ProbeError, match="node-17"):
        check(run_dir)


def test_a_machine_is_called_what_the_variable_says(monkeypatch: pytest.MonkeyPatch) -> None:
    from probe.launch.surroundings import host_facts

    monkeypatch.setenv(HOST_VARIABLE, "laptop")
    assert host_facts().name == "laptop"
    monkeypatch.delenv(HOST_VARIABLE)
    assert host_facts().name != "laptop"
