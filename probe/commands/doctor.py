"""`probe doctor`: everything that is wrong with a run."""

from pathlib import Path

import click

from probe.commands.choosing import ABOUT_RUN, find_run, run_argument
from probe.commands.machine import json_option, print_json, problem_json

FOUND_ERRORS = 1
"""Exit code of a run with errors; warnings alone are 0."""


@click.command("doctor", epilog=ABOUT_RUN)
@run_argument
@json_option
@click.pass_context
def command(ctx: click.Context, run: str, runs_dir: Path, as_json: bool) -> None:
    """Check every file of a run; name each problem and its remedy.

    Exits with 1 if any problem is an error, with 0 if there are none or only warnings.

    \b
    Example: probe doctor latest && probe seal latest
    """
    from probe.read.run import check_run, load_run
    from probe.read.run_traces import find_traces
    from probe.schema.tables import TABLES
    from probe.schema.vocabulary import Severity
    from probe.text.problem_list import problem_list
    from probe.text.progress import table_progress
    from probe.text.terminal import make_console, print_plainly

    opened = load_run(find_run(run, runs_dir))
    with table_progress("Checking") as on_table:
        problems = check_run(opened, on_table=on_table)
    count = sum(item.severity is Severity.ERROR for item in problems)
    if as_json:
        print_json(
            {
                "name": opened.name,
                "path": str(opened.path),
                "status": opened.verdict.status,
                "why": opened.verdict.why,
                "errors": count,
                "problems": [problem_json(item) for item in problems],
            }
        )
    else:
        ranks = len(opened.ranks)
        checked = f"{len(TABLES)} tables of {ranks:,} rank{'s' if ranks != 1 else ''}"
        windows = len(find_traces(opened.path))
        if windows:
            checked += f" and {windows:,} profiled window{'s' if windows != 1 else ''}"
        if not opened.readable:
            checked = "the documents; its tables were not read"
        print_plainly(make_console(), problem_list(problems, name=opened.name, checked=checked))
    ctx.exit(FOUND_ERRORS if count else 0)
