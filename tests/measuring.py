"""A reader in a process of its own, to see how much memory it takes and that it comes to an end."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
GIB = 1 << 30

_PROGRAM = """
import json, sys
from probe.read.discovery import find_runs
from probe.read.run import check_run, load_run
from probe.read.tail import Tail
from probe.schema.tables import TABLES

path = sys.argv[1]
find_runs(path)
run = load_run(path)
problems = [f"{item.file}: {item.what}" for item in check_run(run)]
rows = {}
for table in TABLES:
    loaded = run.table(table)
    problems += [f"{item.file}: {item.what}" for item in loaded.problems]
    rows[table.name] = loaded.table.num_rows
    del loaded
    Tail(run.path, table).poll()
# Not ru_maxrss: that survives exec, and this would be the peak of whoever started us.
with open("/proc/self/status") as status:
    lines = dict(line.split(":", 1) for line in status)
peak_bytes = int(lines["VmHWM"].split()[0]) * 1024
print(json.dumps({"problems": problems, "rows": rows, "peak_bytes": peak_bytes}))
"""


def read_apart(run_dir: Path) -> dict[str, Any]:
    """All that a reader does with a run: its problems, its rows and the largest memory."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", _PROGRAM, str(run_dir)],
        env={"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    return result
