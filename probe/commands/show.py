"""`probe show`: one run in detail."""

import time
from pathlib import Path

import click

from probe.commands.choosing import ABOUT_RUN, find_run, run_argument
from probe.commands.machine import json_option, print_json, problem_json


@click.command("show", epilog=ABOUT_RUN)
@run_argument
@json_option
def command(run: str, runs_dir: Path, as_json: bool) -> None:
    """Show what a run was, its headline numbers and what stands out.

    \b
    Example: probe show latest
    """
    from probe.telling.analysis_json import analysis_json
    from probe.telling.run import open_readable, tell
    from probe.text.progress import table_progress
    from probe.text.run_analysis import run_analysis
    from probe.text.run_detail import run_detail
    from probe.text.terminal import make_console, print_plainly

    opened = open_readable(find_run(run, runs_dir))
    with table_progress("Reading") as on_table:
        told = tell(opened, on_table=on_table)
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
                "table_rows": told.table_rows,
                "problems": [problem_json(item) for item in told.problems],
            }
        )
        return
    detail = run_detail(
        opened,
        told.headline,
        analysis=run_analysis(told.facts, told.findings),
        table_rows=told.table_rows,
        problems=told.problems,
        now_ns=time.time_ns(),
    )
    print_plainly(make_console(), detail)
