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
    """Show what a run was, how far it came and its headline numbers.

    \b
    Example: probe show latest
    """
    from probe.analyse.headline import COMM_COLUMNS, MEMORY_COLUMNS, STEP_COLUMNS, summarise_run
    from probe.commands.opening import open_readable
    from probe.schema.tables import COMM, MEMORY, STEPS, TABLES
    from probe.text.progress import table_progress
    from probe.text.run_detail import run_detail
    from probe.text.terminal import make_console, print_plainly

    opened = open_readable(find_run(run, runs_dir))
    columns = {STEPS: STEP_COLUMNS, MEMORY: MEMORY_COLUMNS, COMM: COMM_COLUMNS}
    tables = {}
    problems = list(opened.problems)
    with table_progress("Reading") as on_table:
        for table in TABLES:
            on_table(table)
            loaded = opened.table(table, columns=columns.get(table, ("rank",)))
            tables[table] = loaded.table
            problems += loaded.problems
    headline = summarise_run(steps=tables[STEPS], memory=tables[MEMORY], comm=tables[COMM])
    table_rows = {table.name: rows.num_rows for table, rows in tables.items()}
    if as_json:
        print_json(
            {
                "name": opened.name,
                "path": str(opened.path),
                "status": opened.verdict.status,
                "why": opened.verdict.why,
                "ranks": opened.ranks,
                "manifest": opened.manifest,
                "headline": headline,
                "table_rows": table_rows,
                "problems": [problem_json(item) for item in problems],
            }
        )
        return
    detail = run_detail(
        opened, headline, table_rows=table_rows, problems=problems, now_ns=time.time_ns()
    )
    print_plainly(make_console(), detail)
