"""`probe seal`: a run that has ended, in one Parquet file a table."""

from pathlib import Path

import click

from probe.commands.choosing import ABOUT_RUN, find_run, run_argument


@click.command("seal", epilog=ABOUT_RUN)
@run_argument
@click.option("--force", is_flag=True, help="Seal even a run that seems to be running.")
def command(run: str, runs_dir: Path, force: bool) -> None:
    """Turn the JSONL of a run into one small Parquet file a table.

    Each table is written, read back and compared before its JSONL goes. Safe to interrupt and to
    repeat.

    \b
    Example: probe seal latest
    """
    from probe.seal import seal_run
    from probe.text.file_report import seal_report
    from probe.text.progress import table_progress
    from probe.text.terminal import make_console, print_lines

    path = find_run(run, runs_dir)
    with table_progress("Sealing") as on_table:
        report = seal_run(path, even_if_running=force, on_table=on_table)
    print_lines(make_console(), seal_report(report, name=path.name))
