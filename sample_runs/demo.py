"""`make demo`: a small GPT under a few settings, the settings side by side, and the dashboard.

    python -m sample_runs.demo [--runs-dir DIR] [-- arguments for train.py]

SERVE=0 in the environment ends it before the dashboard is served.
"""

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

from probe.commands.choosing import RUNS_DIR_VARIABLE
from sample_runs.recordings import DEMO, ROOT, newest, start

DASHBOARD = ROOT / "app" / "main.py"


def main() -> int:
    """Record, compare, serve."""
    parser = argparse.ArgumentParser(description="Record a small GPT and compare.")
    parser.add_argument("--runs-dir", type=Path, default=ROOT / "runs")
    parser.add_argument("script_arguments", nargs="*", metavar="ARGUMENT", help="for train.py")
    arguments = parser.parse_args()

    recordings, began_s, names = DEMO, time.monotonic(), []
    for number, recording in enumerate(recordings, start=1):
        print(f"\n[{number}/{len(recordings)}] {recording.shows}", flush=True)
        print(f"$ {' '.join(recording.command)}", flush=True)
        code = start(recording.with_words(arguments.script_arguments), arguments.runs_dir).wait()
        if code:
            return code
        names.append(newest(recording, arguments.runs_dir).name)
    print(f"\nrecorded in {time.monotonic() - began_s:.0f} s", flush=True)
    print(f"\n$ probe compare {' '.join(names)}", flush=True)
    call(arguments.runs_dir, "probe", "compare", *names)
    print("\nlook further  probe show, probe report, probe doctor; each with --help", flush=True)
    if os.environ.get("SERVE") != "0" and DASHBOARD.exists():
        call(arguments.runs_dir, "streamlit", "run", str(DASHBOARD.relative_to(ROOT)))
    return 0


def call(runs_dir: Path, module: str, *words: str) -> None:
    """Run a program of this environment in the repository, and wait for it."""
    environment = {**os.environ, RUNS_DIR_VARIABLE: str(runs_dir.resolve())}
    subprocess.run([sys.executable, "-m", module, *words], cwd=ROOT, env=environment, check=False)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
