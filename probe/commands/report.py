"""`probe report`: runs as one HTML file."""

import time
from pathlib import Path

import click

from probe.commands.choosing import ABOUT_RUN, complete_run, find_run, runs_dir_option
from probe.errors import UsageError

MOST_RUNS = 8
"""More cannot be told apart in one chart."""


@click.command("report", epilog=ABOUT_RUN)
@click.argument("runs", metavar="RUN...", nargs=-1, required=True, shell_complete=complete_run)
@runs_dir_option
@click.option(
    "-o",
    "--output",
    "path",
    type=click.Path(dir_okay=False, path_type=Path),
    default="report.html",
    show_default=True,
    metavar="FILE",
    help="File to write.",
)
@click.option("--force", is_flag=True, help="Replace a file that is there already.")
def command(runs: tuple[str, ...], runs_dir: Path, path: Path, force: bool) -> None:
    """Write findings, figures and tables into one HTML file.

    The file is whole: it opens without a network, prints, and follows the reader's light or dark
    mode. Of two runs or more it compares the first with each of the others, as `probe compare`.

    \b
    Example: probe report latest -o latest.html
    """
    if len(runs) > MOST_RUNS:
        raise UsageError(f"A report holds up to {MOST_RUNS} runs, and {len(runs)} were named.")
    if path.exists() and not force:
        raise UsageError(f"{path} exists; write elsewhere, or replace it with --force.")
    from probe.analyse.compare.comparison import compare_runs
    from probe.report.report import write_report
    from probe.telling.equal_runs import history_of
    from probe.telling.measured import read_run
    from probe.telling.run import open_readable
    from probe.telling.whole_run import tell_whole
    from probe.telling.window import tell_window
    from probe.text.progress import table_progress
    from probe.units import format_bytes

    opened = [open_readable(find_run(run, runs_dir)) for run in runs]
    with table_progress("Reading") as on_table:
        told = [tell_whole(run, on_table=on_table) for run in opened]
    windows = [tell_window(run, at_any_cost=True) for run in opened]
    comparison = None
    if len(opened) > 1:
        measured = [[read_run(run)] for run in opened]
        comparison = compare_runs(measured, history=history_of(measured))
    report = write_report(told, windows, comparison, now_ns=time.time_ns())
    size = write_whole(path, report.html)
    click.echo(
        f"{path}: {report.charts} charts, {report.points:,} points, {format_bytes(size)}, "
        "needs no network."
    )


def write_whole(path: Path, text: str) -> int:
    """Write a file so that it is there whole or not at all; returns its size."""
    temporary = path.with_name(f"{path.name}.part")
    try:
        size = temporary.write_bytes(text.encode("utf-8"))
        temporary.replace(path)
    except OSError as error:
        raise UsageError(f"{path} cannot be written ({error.strerror or error}).") from error
    finally:
        temporary.unlink(missing_ok=True)
    return size
