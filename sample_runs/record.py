"""`make sample-runs`: record the samples again, by the commands that anybody would type.

    python -m sample_runs.record [--into DIR] [--only NAME ...]

They go to strangers: the machine is called "laptop" in them, commands hold relative paths only, and
no file may hold the machine's name, a user's name or a path of it.
"""

import argparse
import os
import shutil
import signal
import tempfile
import time
from pathlib import Path

from probe.errors import ProbeError
from probe.read.documents import read_header, read_heartbeat
from probe.read.run import check_run, load_run
from probe.record.host import HOST_VARIABLE
from probe.schema.vocabulary import RankState, Severity
from sample_runs.anonymous import check, clean
from sample_runs.recordings import ROOT, SAMPLES, Recording, newest, start
from sample_runs.table import write_table

HOST = "laptop"
KILLED_AT_STEP = 25
STARTS_WITHIN_S = 300.0
MOST_BYTES = 6_000_000


def main() -> None:
    """Record into a folder beside, clean, check, and only then replace what was there."""
    parser = argparse.ArgumentParser(description="Record the samples again.")
    parser.add_argument("--into", type=Path, default=ROOT / "sample_runs")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="leave the others as they are")
    arguments = parser.parse_args()
    chosen = [each for each in SAMPLES if not arguments.only or each.name in arguments.only]

    arguments.into.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=arguments.into, prefix=".new-") as folder:
        for number, recording in enumerate(chosen, start=1):
            print(f"\n[{number}/{len(chosen)}] {' '.join(recording.command)}", flush=True)
            run_dir = record(recording, Path(folder))
            clean(run_dir, HOST)
            check(run_dir)
        for path in Path(folder).iterdir():
            shutil.rmtree(arguments.into / path.name, ignore_errors=True)
            path.rename(arguments.into / path.name)
    total_bytes = write_table(arguments.into)
    print(f"\n{len(chosen)} recorded; {total_bytes / 1e6:.2f} MB in all")
    if total_bytes > MOST_BYTES:
        raise ProbeError(f"The samples take {total_bytes:,} bytes, more than {MOST_BYTES:,}.")


def record(recording: Recording, folder: Path) -> Path:
    """Record one run under its plain name."""
    process = start(recording, folder, **{HOST_VARIABLE: HOST})
    try:
        if recording.kills_rank is not None:
            kill(recording.kills_rank, recording.name, folder)
        code = process.wait()
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
            process.wait()
    if (code == 0) is (recording.kills_rank is not None):
        raise ProbeError(f"{recording.name} ended with exit code {code}.")
    run_dir = newest(recording, folder).path.rename(folder / recording.name)
    wrong = [each for each in check_run(load_run(run_dir)) if each.severity is Severity.ERROR]
    if wrong:
        raise ProbeError(f"{recording.name}: {wrong[0].file} {wrong[0].what}")
    return run_dir


def kill(rank: int, name: str, folder: Path) -> None:
    """End a rank of the run under way as the system does when memory is short."""
    deadline_s = time.monotonic() + STARTS_WITHIN_S
    while time.monotonic() < deadline_s:
        # Runs that are over have lost the time in front of their names.
        for run_dir in folder.glob(f"?*-{name}"):
            heartbeat, _, _ = read_heartbeat(run_dir, rank)
            header, _ = read_header(run_dir, rank)
            if heartbeat is None or header is None or header.pid is None:
                continue
            if heartbeat.state is RankState.ALIVE and (heartbeat.step or 0) >= KILLED_AT_STEP:
                os.kill(header.pid, signal.SIGKILL)
                return
        time.sleep(0.05)
    raise ProbeError(
        f"Rank {rank} did not come to step {KILLED_AT_STEP} in {STARTS_WITHIN_S:.0f} s."
    )


if __name__ == "__main__":
    main()
