"""`probe list`: the runs below a folder."""

from pathlib import Path
from typing import Any

import click

from probe.commands.choosing import DEFAULT_RUNS_DIR, RUNS_DIR_VARIABLE
from probe.commands.machine import json_option, print_json, problem_json
from probe.read.discovery import RunSummary, find_runs, is_readable
from probe.remark import remark_of


@click.command("list")
@click.argument(
    "folder",
    metavar="[DIR]",
    type=click.Path(file_okay=False, path_type=Path),
    default=DEFAULT_RUNS_DIR,
    envvar=RUNS_DIR_VARIABLE,
)
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Only the N newest runs.")
@json_option
def command(folder: Path, limit: int | None, as_json: bool) -> None:
    """List the runs below a folder, newest first.

    DIR is "runs" by default, or what PROBE_RUNS says. Health is what the documents of a run tell;
    `probe doctor` reads its tables too.

    \b
    Example: probe list --limit 10
    """
    runs = find_runs(folder)[:limit]
    if as_json:
        print_json([run_json(run) for run in runs])
        return
    _print_list(runs, folder)


def run_json(run: RunSummary) -> dict[str, Any]:
    """A run as a list tells it."""
    config = run.manifest.config
    remark = remark_of(run.path, run.manifest)
    return {
        "name": run.name,
        "path": str(run.path),
        "status": run.verdict.status,
        "why": run.verdict.why,
        "format_version": run.manifest.format_version,
        "readable": is_readable(run),
        "precision": config.precision,
        "stage": config.stage,
        "offload_optimizer": config.offload_optimizer,
        "offload_params": config.offload_params,
        "world_size": run.manifest.world_size,
        "ranks": run.ranks,
        "steps": run.steps,
        "started_ns": run.started_ns,
        "tags": remark.tags,
        "notes": remark.notes,
        "problems": [problem_json(item) for item in run.problems],
    }


def _print_list(runs: list[RunSummary], folder: Path) -> None:
    import time

    from probe.text.printable import printable
    from probe.text.run_list import run_list
    from probe.text.terminal import make_console, print_lines, row_columns

    if not runs:
        click.echo(f"{printable(str(folder))} holds no runs yet.", err=True)
        return
    console = make_console()
    lines = run_list(runs, now_ns=time.time_ns(), columns=row_columns(console))
    print_lines(console, lines)
