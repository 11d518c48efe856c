"""`probe trace`: a run as one file for a timeline viewer."""

from pathlib import Path

import click

from probe.commands.choosing import ABOUT_RUN, find_run, run_argument


@click.command("trace", epilog=ABOUT_RUN)
@run_argument
@click.option(
    "-o",
    "--output",
    "path",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    metavar="FILE",
    help="File to write, *.json or *.json.gz.",
)
@click.option(
    "--rank",
    "ranks",
    type=click.IntRange(min=0),
    multiple=True,
    metavar="R",
    help="Only this rank; may be repeated. Default: all.",
)
@click.option("--force", is_flag=True, help="Replace a file that is there already.")
def command(run: str, runs_dir: Path, path: Path, ranks: tuple[int, ...], force: bool) -> None:
    """Write all ranks of a run into one trace for Perfetto.

    Holds every profiled window, and from the tables a slice for each step and sampled collective
    and counters of loss, loss scale and memory. Open it at ui.perfetto.dev.

    \b
    Example: probe trace latest -o merged.json.gz
    """
    from probe.errors import UsageError
    from probe.merge import merge_run
    from probe.telling.run import open_readable
    from probe.text.file_report import merge_report
    from probe.text.problem_list import describe_problems
    from probe.text.terminal import make_console, print_lines

    opened = open_readable(find_run(run, runs_dir))
    if path.exists() and not force:
        raise UsageError(f"{path} exists; write elsewhere, or replace it with --force.")
    if not path.name.endswith((".json", ".json.gz")):
        raise UsageError(f"{path} would be a trace; call it *.json or *.json.gz.")
    if unknown := [rank for rank in ranks if rank not in opened.ranks]:
        raise UsageError(f"{opened.name} has no rank {', '.join(map(str, unknown))}.")
    try:
        merged = merge_run(opened, path, ranks=ranks)
    except OSError as error:
        raise UsageError(f"{path} cannot be written ({error.strerror or error}).") from error
    print_lines(make_console(), merge_report(merged))
    if merged.problems:
        remark = f"{describe_problems(merged.problems)} on the way; `probe doctor` shows them."
        click.echo(remark, err=True)
