"""The part of the samples' README that follows from them: what, where, when, how large."""

from datetime import UTC, datetime
from pathlib import Path

from probe.read.discovery import find_runs
from probe.read.run import load_run
from probe.schema.documents import Manifest
from probe.schema.tables import STEPS
from probe.units import format_bytes
from sample_runs.recordings import SAMPLES

README = "README.md"
BEGIN, END = "<!-- recorded -->\n", "<!-- end of recorded -->\n"


def write_table(folder: Path) -> int:
    """Put the table of the runs in a folder into its README; the bytes that they take."""
    readme = folder / README
    text = readme.read_text() if readme.exists() else BEGIN + END
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    runs = {run.name: run for run in find_runs(folder)}
    lines = ["| run | recorded by | shows | steps | ended | size |", "|---|---|---|---|---|---|"]
    total_bytes = 0
    for sample in SAMPLES:
        if sample.name not in runs:
            continue
        run = runs[sample.name]
        size_bytes = sum(path.stat().st_size for path in run.path.rglob("*") if path.is_file())
        total_bytes += size_bytes
        cells = (
            f"`{sample.name}`",
            f"`{' '.join(sample.command)}`",
            sample.shows,
            str(_steps(run.path)),
            run.verdict.status,
            format_bytes(size_bytes),
        )
        lines.append(f"| {' | '.join(cells)} |")
    newest = max(runs.values(), key=lambda run: run.started_ns)
    table = "\n".join([*lines, "", _where(newest.manifest), ""])
    readme.write_text(f"{before}{BEGIN}{table}{END}{after}")
    return total_bytes


def _steps(run_dir: Path) -> int:
    """Steps that any rank recorded; a heartbeat knows only of those up to a moment."""
    rows = load_run(run_dir).table(STEPS, columns=["step"]).table
    return len(rows["step"].unique())


def _where(manifest: Manifest) -> str:
    host = manifest.hosts[0]
    day = datetime.fromtimestamp((manifest.started_ns or 0) / 1e9, tz=UTC).date()
    versions = ", ".join(f"{name} {version}" for name, version in manifest.versions.items())
    return (
        f"Recorded {day} on {host.cpu}, {host.cores} cores, {format_bytes(host.memory_bytes)}, "
        f"{host.system}; {versions}; commit {manifest.git.commit[:12]}."
    )
