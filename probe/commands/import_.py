"""`probe import`: traces that other programs recorded, as a run."""

from pathlib import Path

import click

from probe.commands.choosing import new_run_dir_option
from probe.commands.machine import json_option, print_json, problem_json


@click.command("import")
@click.argument(
    "paths", metavar="PATH...", nargs=-1, required=True, type=click.Path(path_type=Path)
)
@new_run_dir_option
@click.option("--name", default="", help="Name of the run; the folder's by default.")
@json_option
def command(paths: tuple[Path, ...], runs_dir: Path, name: str, as_json: bool) -> None:
    """Make a run of profiler traces, one or more a rank.

    PATH is a trace (Kineto's *.json or *.json.gz) or a folder of them, as torch.profiler writes it
    and HTA reads it. The rank is what the trace says, else what its file is called. The files stay
    where they are; a damaged one gives what it holds.

    \b
    Example: probe import traces/ --name before
    """
    from probe.adopt import adopt_traces
    from probe.text.import_report import import_report
    from probe.text.problem_list import problem_list
    from probe.text.progress import file_progress
    from probe.text.terminal import make_console, print_lines, print_plainly

    with file_progress("Reading") as on_trace:
        adopted = adopt_traces(paths, runs_dir, name=name, on_trace=on_trace)
    if as_json:
        print_json(
            {
                "name": adopted.path.name,
                "path": str(adopted.path),
                "traces": [
                    {
                        "file": str(item.source),
                        "rank": item.rank,
                        "events": item.events,
                        "steps": item.steps,
                        "steps_by": item.mark,
                    }
                    for item in adopted.traces
                ],
                "problems": [problem_json(item) for item in adopted.problems],
            }
        )
        return
    if adopted.problems:
        checked = f"{len(adopted.traces)} traces"
        view = problem_list(adopted.problems, name=adopted.path.name, checked=checked)
        print_plainly(make_console(stderr=True), view)
    print_lines(make_console(), import_report(adopted))
