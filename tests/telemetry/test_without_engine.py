"""A script that builds no engine: what can be seen from outside, and all that it prints."""

import hashlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from probe.__main__ import main
from probe.launch.output_log import OutputLog
from probe.read.run import load_run
from probe.schema.tables import EVENTS, METRICS
from probe.schema.vocabulary import RunStatus

ROOT = Path(__file__).parents[2]
PRINTED_BYTES = 10_000_000

SCRIPT = f"""
import os, sys, time
if os.environ["RANK"] == "0":
    line = b"x" * 99 + b"\\n"
    for _ in range({PRINTED_BYTES} // 100):
        sys.stdout.buffer.write(line)
    sys.stdout.flush()
    print("the last line")
time.sleep(1.2)
"""


def test_ten_megabytes_pass_through_and_the_rest_is_recorded(tmp_path: Path) -> None:
    script = tmp_path / "printing.py"
    script.write_text(SCRIPT)
    runs = tmp_path / "runs"
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "probe",
            "run",
            "--runs-dir",
            str(runs),
            "--nproc",
            "2",
            str(script),
        ],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        timeout=150,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert len(done.stdout) == PRINTED_BYTES + len("the last line\n")
    assert b"engine.initialize" in done.stderr, "one line says how to get the rest"
    (run_dir,) = runs.iterdir()
    run = load_run(run_dir)
    assert run.manifest is not None
    assert run.manifest.status is RunStatus.FINISHED
    assert run.manifest.exit_codes == {"0": 0, "1": 0}
    assert (run.manifest.ended_ns or 0) - (run.manifest.started_ns or 0) > 1.2e9
    samples = run.table(METRICS).table.to_pylist()
    assert {row["name"] for row in samples} == {"rss_bytes"}
    for rank in (0, 1):
        mine = [row for row in samples if row["rank"] == rank]
        assert len(mine) >= 2
        assert all(row["value"] > 1e6 for row in mine)
        assert [row["time_ns"] for row in mine] == sorted(row["time_ns"] for row in mine)
    finished = [row for row in run.table(EVENTS).table.to_pylist() if row["kind"] == "finished"]
    assert {row["rank"] for row in finished} == {0, 1}
    kept = (run_dir / "output.log").read_bytes()
    assert len(kept) < 6 << 20
    assert kept.endswith(b"the last line\n")
    assert b"bytes left out]" in kept


def test_what_is_missing_is_said_in_words(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # GIVEN a script that trains by DistributedDataParallel and knows nothing of the engine
    script = tmp_path / "ddp.py"
    script.write_text(
        "import torch, torch.distributed as dist\n"
        "dist.init_process_group('gloo')\n"
        "model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 8))\n"
        "model(torch.randn(4, 8)).square().mean().backward()\n"
        "dist.destroy_process_group()\n"
    )
    runs = tmp_path / "runs"
    command = [sys.executable, "-m", "probe", "run", "--runs-dir", str(runs), "--nproc", "2"]
    subprocess.run(
        [*command, str(script)],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        timeout=150,
        check=True,
    )
    monkeypatch.setenv("COLUMNS", "80")
    (run_dir,) = runs.iterdir()
    # WHEN it is shown
    assert main(["show", str(run_dir)]) == 0
    out = capsys.readouterr().out
    # THEN what was seen from outside stands there, and why there is no more
    assert re.search(r"^host peak +\d+ MB on rank [01]$", out, re.M)
    assert "No step was recorded: the script built no engine." in out
    assert max(map(len, out.splitlines())) <= 80


def test_of_much_output_beginning_and_end_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "output.log"
    log = OutputLog(path, head_bytes=100, tail_bytes=50)
    printed = b"".join(hashlib.sha256(bytes([number])).digest() for number in range(40))
    for start in range(0, len(printed), 30):
        log.add(printed[start : start + 30])
    log.close()
    kept = path.read_bytes()
    assert kept.startswith(printed[:100])
    head, _, tail = kept[100:].partition(b" bytes left out]\n")
    missing = int(head.removeprefix(b"\n["))
    assert printed.endswith(tail) and 50 <= len(tail) < 80
    assert 100 + missing + len(tail) == len(printed)


def test_little_output_is_kept_as_it_is(tmp_path: Path) -> None:
    log = OutputLog(tmp_path / "output.log", head_bytes=10, tail_bytes=10)
    log.add(b"123456")
    log.add(b"7890abcd")
    log.close()
    assert (tmp_path / "output.log").read_bytes() == b"1234567890abcd"


def test_a_log_that_cannot_be_written_keeps_nobody(tmp_path: Path) -> None:
    log = OutputLog(tmp_path / "gone" / "output.log")
    log.add(b"something")
    log.close()
