"""`probe run --offload`: states on disk without a word about where, and nothing left of them."""

import subprocess
import sys
from pathlib import Path

from probe.read.discovery import find_runs
from probe.read.run import load_run
from probe.schema.layout import OFFLOAD_DIR
from probe.schema.tables import OFFLOAD

ROOT = Path(__file__).parents[2]
SMALL = ("--steps", "4", "--width", "32", "--layers", "1", "--length", "16", "--batch", "2")


def test_states_rest_in_the_run_while_it_trains(tmp_path: Path) -> None:
    call = [sys.executable, "-m", "probe", "run", "--runs-dir", str(tmp_path), "--nproc", "2"]
    call += ["--stage", "3", "--bf16", "--offload", "optimizer", "--offload-to", "disk"]
    done = subprocess.run(
        [*call, str(ROOT / "train.py"), *SMALL], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    (found,) = find_runs(tmp_path)
    run = load_run(found.path)
    moved = run.table(OFFLOAD.name).table.to_pylist()
    assert {row["tier"] for row in moved} == {"disk", "host"}
    assert sum(row["moved_bytes"] for row in moved if row["tier"] == "disk") > 0
    assert not (run.path / OFFLOAD_DIR).exists()
    named = [key for key, value in run.manifest.config.settings.items() if "/" in str(value)]
    assert not named, "a folder of this machine is nothing that a comparison should speak of"
