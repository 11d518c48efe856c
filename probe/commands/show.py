"""`probe show`: one run in detail."""

import time
from pathlib import Path

import click

from probe.commands.choosing import ABOUT_RUN, find_run, run_argument
from probe.commands.machine import json_option, print_json, problem_json


@click.command("show", epilog=ABOUT_RUN)
@run_argument
@click.option(
    "--trace/--no-trace",
    "trace",
    default=None,
    help="Read the profiled window however large it is, or not at all. Default: if it is small.",
)
@click.option(
    "--rank",
    type=click.IntRange(min=0),
    metavar="N",
    help="The rank whose profiled window is told. Default: the lowest that has one.",
)
@json_option
def command(run: str, runs_dir: Path, trace: bool | None, rank: int | None, as_json: bool) -> None:
    """Show what a run was, its headline numbers and what stands out.

    A profiled window adds where its time went, operators, gaps and critical path.

    \b
    Example: probe show latest
    """
    from rich.text import Text

    from probe.telling.analysis_json import analysis_json
    from probe.telling.run import open_readable, tell
    from probe.telling.window import tell_window, window_json
    from probe.text.progress import table_progress
    from probe.text.run_analysis import run_analysis
    from probe.text.run_detail import run_detail
    from probe.text.terminal import make_console, print_plainly
    from probe.text.window_table import window_table

    opened = open_readable(find_run(run, runs_dir))
    with table_progress("Reading") as on_table:
        told = tell(opened, on_table=on_table)
    window = None if trace is False else tell_window(opened, at_any_cost=bool(trace), rank=rank)
    problems = (*told.problems, *(window.problems if window else ()))
    if as_json:
        print_json(
            {
                "name": opened.name,
                "path": str(opened.path),
                "status": opened.verdict.status,
                "why": opened.verdict.why,
                "ranks": opened.ranks,
                "manifest": opened.manifest,
                "headline": told.headline,
                "findings": told.findings,
                "analysis": analysis_json(told.facts),
                "window": window_json(window),
                "table_rows": told.table_rows,
                "problems": [problem_json(item) for item in problems],
            }
        )
        return
    analysis = run_analysis(told.facts, told.findings)
    if window is not None:
        file = window.file
        analysis += window_table(
            window.summary,
            rank=file.rank,
            step=file.step,
            size_bytes=file.size_bytes,
            windows=window.windows,
        )
        analysis.append(Text())
    detail = run_detail(
        opened,
        told.headline,
        analysis=analysis,
        table_rows=told.table_rows,
        problems=problems,
        now_ns=time.time_ns(),
    )
    print_plainly(make_console(), detail)
