"""Taking out of a run what says on whose machine it was recorded, and making sure of it.

The machine's name is chosen when a run is recorded (PROBE_HOST). What remains are paths in what the
ranks printed, and what the profiler says of itself. Nothing that was measured is touched.
"""

import getpass
import gzip
import socket
import sys
from pathlib import Path

from probe.distill import distill_run
from probe.errors import ProbeError
from probe.schema.layout import OUTPUT
from sample_runs.recordings import ROOT


def clean(run_dir: Path, host: str) -> None:
    """Rewrite output and traces, and distill these again."""
    output = run_dir / OUTPUT
    if output.exists():
        output.write_text(_without_paths(output.read_text(errors="replace")))
    name = socket.gethostname()
    for trace in run_dir.glob("rank_*/trace_*.json.gz"):
        text = gzip.decompress(trace.read_bytes()).decode()
        text = text.replace(f'"host_name": "{name}"', f'"host_name": "{host}"')
        trace.write_bytes(gzip.compress(text.encode(), compresslevel=9, mtime=0))
        trace.with_name(trace.name.removesuffix(".json.gz") + ".parquet").unlink()
    distill_run(run_dir)


def check(run_dir: Path) -> None:
    """Refuse a run in which anything still names machine, user or path."""
    words = {str(ROOT), sys.prefix, str(Path.home())}
    # A name such as "vm" is part of too many words to be looked for by itself.
    words |= {f'"{word}"' for word in (socket.gethostname(), getpass.getuser())}
    for path in run_dir.rglob("*"):
        if not path.is_file():
            continue
        content = path.read_bytes()
        if path.suffix == ".gz":
            content = gzip.decompress(content)
        found = [word for word in words if word.encode() in content]
        if found:
            raise ProbeError(f"{path} holds {found[0]}; teach sample_runs/anonymous.py about it.")


def _without_paths(text: str) -> str:
    """Paths of the repository and of the environment as they are called within."""
    places = ((f"{ROOT}/", ""), (f"{sys.prefix}/", ".venv/"), (f"{sys.base_prefix}/", "python/"))
    for path, instead in places:
        text = text.replace(path, instead)
    return text
