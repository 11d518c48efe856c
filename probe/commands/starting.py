"""What becomes of a request: told as a plan, or launched with a live line and a summary."""

import shlex
import shutil
from pathlib import Path

import click

from probe.launch.request import RunRequest, command_of
from probe.schema.documents import ProfileWindow


def tell_plan(request: RunRequest) -> None:
    """What would be started, where it would be recorded, and what the ranks would be told."""
    command = command_of(request, Path("REPORT"))
    click.echo(f"processes   {request.processes} on each of {request.nodes} machine(s)")
    click.echo(f"command     {shlex.join(command)}")
    click.echo(f"recorded    {f'below {request.runs_dir}' if request.record else 'not at all'}")
    for name, value in request.flags.given().items():
        click.echo(f"flag        {name} = {value}")
    if (window := request.profile) is not None:
        ranks = ", ".join(map(str, window.ranks))
        steps = f"steps {window.first_step} to {window.end_step - 1}"
        click.echo(f"profiled    {steps} on rank {ranks}{_with(window)}")
    every = request.numerics_every
    click.echo(f"numerics    {f'every {every} steps' if every else 'never'}")


def _with(window: ProfileWindow) -> str:
    return f", with {', '.join(window.details)}" if window.details else ""


def launch_and_tell(request: RunRequest) -> int:
    """Start, keep the live line, and end with a summary."""
    from probe.commands.following import launch_with_line
    from probe.text.live_line import LiveLine

    line = LiveLine(columns=shutil.get_terminal_size().columns)
    try:
        finished = launch_with_line(request, line, on_output=line.pass_on)
    finally:
        line.end()
    if finished.run_dir is not None and finished.began_here:
        _print_end(finished.run_dir, finished.outcome.first)
    return finished.outcome.code


def _print_end(run_dir: Path, first_failed: int | None) -> None:
    """The summary of a run, on stderr: what stands on stdout is the script's."""
    from probe.read.run import load_run
    from probe.telling.ending import cause_of, recording_stopped
    from probe.telling.run import tell
    from probe.text.run_end import run_end
    from probe.text.terminal import make_console, print_plainly

    console = make_console(stderr=True)
    if not run_dir.is_dir():
        console.print(f"{run_dir} was removed meanwhile; nothing of the run is left.")
        return
    run = load_run(run_dir)
    told = tell(run)
    view = run_end(
        run,
        told.headline,
        findings=told.findings,
        cause=cause_of(run, first_failed),
        recording_stopped=recording_stopped(run),
    )
    print_plainly(console, view)
