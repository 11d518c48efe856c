"""`probe sweep`: record a script under every combination of settings, and compare them."""

import shlex
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from probe.commands.choosing import DEFAULT_RUNS_DIR, RUNS_DIR_VARIABLE
from probe.commands.machine import json_option, print_json
from probe.commands.spelled import Listed
from probe.errors import UsageError
from probe.launch.cells import Cell, Offload, Start, all_cells, sweep_id
from probe.launch.processes import Finished
from probe.launch.request import RunRequest, check_request, default_processes
from probe.launch.sweep import Failure, Outcome, Plan, already_recorded, record_sweep
from probe.schema.vocabulary import Precision
from probe.units import format_count, format_duration

PRECISIONS = {
    "fp32": Precision.FP32,
    "fp16": Precision.FP16,
    "bf16": Precision.BF16,
    "amp": Precision.AMP_BF16,
}
STAGES = range(4)
FAILED, INTERRUPTED = 1, 130


@click.command(
    "sweep",
    # Our options count before and after SCRIPT; what is not ours goes to the script as it stands.
    context_settings={"ignore_unknown_options": True},
)
@click.argument("script", type=click.Path(path_type=Path))
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.option(
    "--stages",
    type=Listed(int),
    default="0,1,2,3",
    show_default=True,
    metavar="S,S…",
    help="ZeRO stages.",
)
@click.option(
    "--precisions",
    type=Listed(str),
    default="fp32,fp16,bf16",
    show_default=True,
    metavar="P,P…",
    help=f"Any of {', '.join(PRECISIONS)}.",
)
@click.option(
    "--offloads",
    type=Listed(str),
    default="none",
    show_default=True,
    metavar="O,O…",
    help="Any of none, optimizer, params (both to host memory) and disk (optimizer to disk).",
)
@click.option("--repeat", type=click.IntRange(min=1), default=1, help="Runs of each combination.")
@click.option(
    "--config",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="DeepSpeed JSON or Accelerate YAML, in place of what the script names.",
)
@click.option(
    "--nproc",
    type=click.IntRange(min=1),
    metavar="N",
    help="Ranks on this machine. Default: its GPUs, else two.",
)
@click.option("--tag", "tags", multiple=True, metavar="TEXT", help="A tag; may be repeated.")
@click.option(
    "--runs-dir",
    type=click.Path(path_type=Path),
    default=DEFAULT_RUNS_DIR,
    envvar=RUNS_DIR_VARIABLE,
    show_default=True,
    show_envvar=True,
    metavar="DIR",
    help="Folder for the runs.",
)
@click.option("--dry-run", is_flag=True, help="Say what would be recorded, and record nothing.")
@json_option
@click.pass_context
def command(
    ctx: click.Context,
    script: Path,
    arguments: tuple[str, ...],
    stages: list[int],
    precisions: list[str],
    offloads: list[str],
    repeat: int,
    config: Path | None,
    nproc: int | None,
    tags: tuple[str, ...],
    runs_dir: Path,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Record SCRIPT under every combination of settings.

    One run after the other; what cannot be combined is left out with the reason, and a run that
    fails does not end the sweep. The same command goes on where it stopped: runs of the same
    script, arguments and world size are not recorded again. It ends with a table of them all; step
    times are held against the first combination. Exit code 1 if a run failed.

    \b
    Example: probe sweep train.py --stages 0,3 --precisions fp32,bf16 --steps 40
    """
    processes = nproc or default_processes()
    request = RunRequest(
        script=script,
        arguments=arguments,
        processes=processes,
        config=config,
        tags=tags,
        runs_dir=runs_dir,
    )
    check_request(request)
    plan = Plan(
        request=request,
        sweep=sweep_id(script, arguments, processes, config),
        cells=tuple(_cells(precisions, stages, offloads)),
        repeats=repeat,
    )
    if not plan.starts:
        raise UsageError(f"Nothing is left to record: {plan.cells[0].why_not}.")
    if dry_run:
        _tell_plan(plan)
        return
    outcome = _record(plan)
    lines = _lines(plan, outcome)
    if as_json:
        print_json({"sweep": plan.sweep, "complete": _is_complete(plan, outcome), "cells": lines})
    else:
        _print_table(lines)
    if outcome.interrupted:
        missing = len(plan.starts) - len(outcome.recorded)
        click.echo(
            f"Interrupted with {format_count(missing)} of {format_count(len(plan.starts))} runs"
            " to go; the same command goes on from here.",
            err=True,
        )
        ctx.exit(INTERRUPTED)
    ctx.exit(FAILED if outcome.failures else 0)


def _cells(precisions: Sequence[str], stages: Sequence[int], offloads: Sequence[str]) -> list[Cell]:
    for option, given, known in (
        ("--precisions", precisions, list(PRECISIONS)),
        ("--stages", stages, list(STAGES)),
        ("--offloads", offloads, list(Offload)),
    ):
        wrong = [str(word) for word in given if word not in known]
        if wrong or not given:
            what = f"{wrong[0]!r} in {option} is unknown" if wrong else f"{option} is empty"
            raise UsageError(f"{what}; write any of {', '.join(map(str, known))}, with commas.")
    return all_cells(
        [PRECISIONS[word] for word in precisions], stages, [Offload(word) for word in offloads]
    )


def _tell_plan(plan: Plan) -> None:
    """Every run in order, whether it is there already, and what is left out."""
    done = already_recorded(plan)
    for start in plan.starts:
        there = f"recorded as {done[start].path.name}" if start in done else "to record"
        again = f" ({start.number} of {plan.repeats})" if plan.repeats > 1 else ""
        click.echo(f"{start.cell.name}{again}: {there}")
    for cell in plan.cells:
        if cell.why_not is not None:
            click.echo(f"{cell.name}: left out, {cell.why_not}")


def _record(plan: Plan) -> Outcome:
    """Record what is missing, with a line on stderr about the run under way."""
    from probe.commands.following import launch_with_line
    from probe.read.run import load_run
    from probe.telling.ending import cause_of
    from probe.text.live_line import LiveLine
    from probe.text.printable import printable

    line = LiveLine(columns=shutil.get_terminal_size().columns)
    before = ""

    def begins(start: Start, number: int, count: int, left_ns: float | None) -> None:
        nonlocal before
        before = f"{number}/{count} {start.cell.name} · "
        left = "" if left_ns is None else f", about {format_duration(left_ns)} left"
        line.end()
        click.echo(f"{number}/{count} {start.cell.name}{left}", err=True)

    def failed(failure: Failure) -> None:
        line.end()
        there = failure.path is not None and failure.path.is_dir()
        cause = cause_of(load_run(failure.path), failure.first_rank) if there else None  # type: ignore[arg-type]
        where = f"; `probe show {shlex.quote(str(failure.path))}`" if there else ""
        why = printable(cause, limit=200) if cause else "it said nothing"
        click.echo(f"{failure.start.cell.name} failed: {why}{where}", err=True)

    def launch(request: RunRequest) -> Finished:
        # What the script prints is kept with each run; here it would bury the progress.
        return launch_with_line(request, line, on_output=lambda chunk, error: None, before=before)

    try:
        return record_sweep(plan, launch=launch, on_start=begins, on_failure=failed)
    finally:
        line.end()


def _is_complete(plan: Plan, outcome: Outcome) -> bool:
    return len(outcome.recorded) == len(plan.starts)


def _lines(plan: Plan, outcome: Outcome) -> list[dict[str, Any]]:
    """Each cell as plain values: settings, runs, figures, and why there are none."""
    from probe.analyse.compare.sweep import sweep_figures
    from probe.read.run import load_run
    from probe.telling.measured import read_run

    paths = {
        cell: [run.path for run in outcome.recorded if run.start.cell == cell]
        for cell in plan.cells
    }
    figures = sweep_figures(
        [[read_run(load_run(path)) for path in paths[cell]] for cell in plan.cells]
    )
    failed = {failure.start.cell for failure in outcome.failures}
    return [
        {
            "precision": cell.precision.value,
            "stage": cell.stage,
            "offload": cell.offload.value,
            "runs": [path.name for path in paths[cell]],
            "figures": its if paths[cell] else None,
            "why_not": cell.why_not
            or (None if paths[cell] else "failed" if cell in failed else "not recorded yet"),
        }
        for cell, its in zip(plan.cells, figures, strict=True)
    ]


def _print_table(lines: Sequence[dict[str, Any]]) -> None:
    from probe.text.sweep_table import SweepLine, sweep_table
    from probe.text.terminal import make_console, print_lines

    table = sweep_table(
        [
            SweepLine(
                precision=line["precision"],
                stage=line["stage"],
                offload=line["offload"],
                figures=line["figures"],
                remark=line["why_not"] or "",
            )
            for line in lines
        ]
    )
    print_lines(make_console(), table)
