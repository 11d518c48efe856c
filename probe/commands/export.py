"""`probe export`: the tables of a run as files for other programs."""

from pathlib import Path

import click

from probe.commands.choosing import ABOUT_RUN, find_run, run_argument
from probe.schema.tables import TABLE_BY_NAME

FORMATS = ("csv", "parquet", "jsonl")


@click.command("export", epilog=ABOUT_RUN)
@run_argument
@click.option(
    "--to", "to", type=click.Choice(FORMATS), required=True, help="Kind of file to write."
)
@click.option(
    "-o",
    "--output",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    required=True,
    metavar="DIR",
    help="Folder to write into; made if absent.",
)
@click.option(
    "--table",
    "tables",
    type=click.Choice(tuple(TABLE_BY_NAME)),
    multiple=True,
    help="Only this table; may be repeated. Default: all that have rows.",
)
@click.option(
    "--rank",
    "ranks",
    type=click.IntRange(min=0),
    multiple=True,
    metavar="R",
    help="Only this rank; may be repeated. Default: all.",
)
@click.option("--force", is_flag=True, help="Replace files that are there already.")
def command(
    run: str,
    runs_dir: Path,
    to: str,
    folder: Path,
    tables: tuple[str, ...],
    ranks: tuple[int, ...],
    force: bool,
) -> None:
    """Write the tables of a run into CSV, Parquet or JSONL files.

    One file a table, for all ranks. Parquet and JSONL hold the exact values. In CSV missing is an
    empty cell and a list is JSON; a text that begins with = + - @ or a line break gets an
    apostrophe in front, so that no spreadsheet runs a stranger's formula.

    \b
    Example: probe export latest --to csv -o tables --table steps --rank 0
    """
    from probe.export import ExportFormat, export_run
    from probe.telling.run import open_readable
    from probe.text.file_report import export_report
    from probe.text.problem_list import describe_problems
    from probe.text.progress import table_progress
    from probe.text.terminal import make_console, print_lines

    opened = open_readable(find_run(run, runs_dir))
    with table_progress("Exporting") as on_table:
        exported = export_run(
            opened,
            folder,
            to=ExportFormat(to),
            tables=[TABLE_BY_NAME[name] for name in dict.fromkeys(tables)],
            ranks=set(ranks),
            overwrite=force,
            on_table=on_table,
        )
    print_lines(make_console(), export_report(exported))
    if problems := [problem for item in exported for problem in item.problems]:
        remark = f"{describe_problems(problems)} on the way; `probe doctor` shows what and where."
        click.echo(remark, err=True)
