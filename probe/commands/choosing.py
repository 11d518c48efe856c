"""Which run is meant: a path, a name, a part of a name, or `latest`; and which tables of it."""

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem

from probe.errors import UsageError

DEFAULT_RUNS_DIR = "runs"
RUNS_DIR_VARIABLE = "PROBE_RUNS"
LATEST = "latest"
MOST_NAMED = 5

ABOUT_RUN = (
    "RUN is a path, the name of a run below --runs-dir, any part of the name that no other run "
    "has, or 'latest'."
)

Function = TypeVar("Function", bound=Callable[..., Any])


def runs_dir_option(function: Function) -> Function:
    """The folder in which runs are looked for by name."""
    return _runs_dir("Folder in which RUN is looked for by name.")(function)


def new_run_dir_option(function: Function) -> Function:
    """The folder in which a run is made."""
    return _runs_dir("Folder to make the run in.")(function)


def _runs_dir(told: str) -> Callable[[Function], Function]:
    return click.option(
        "--runs-dir",
        type=click.Path(file_okay=False, path_type=Path),
        default=DEFAULT_RUNS_DIR,
        envvar=RUNS_DIR_VARIABLE,
        show_default=True,
        show_envvar=True,
        metavar="DIR",
        help=told,
    )


def run_argument(function: Function) -> Function:
    """The argument RUN and the folder in which it is looked for by name."""
    name = click.argument("run", metavar="RUN", shell_complete=complete_run)
    return name(runs_dir_option(function))


def find_run(run: str, runs_dir: Path) -> Path:
    """The directory of the run that is meant."""
    from probe.read.discovery import find_runs, holds_run, run_paths

    path = Path(run)
    if "/" in run or holds_run(path):
        return path
    if run == LATEST:
        runs = find_runs(runs_dir)
        if not runs:
            raise UsageError(f"{runs_dir} holds no run; name one by its path.")
        return runs[0].path
    found = {path.name: path for path in run_paths(runs_dir)}
    matches = _matches(run, sorted(found))
    if not matches:
        if path.is_dir():
            return path
        raise UsageError(
            f"There is no run {run!r} in {runs_dir} nor at this path; "
            f"`probe list {runs_dir}` shows those that are there."
        )
    if len(matches) > 1:
        named = ", ".join(matches[:MOST_NAMED]) + (", …" if len(matches) > MOST_NAMED else "")
        raise UsageError(
            f"{run!r} could be any of {len(matches)} runs ({named}); write more of it."
        )
    return found[matches[0]]


def complete_run(ctx: click.Context, param: click.Parameter, start: str) -> list[CompletionItem]:
    """Names of runs for the shell; folders once it looks like a path."""
    from probe.read.discovery import run_paths

    runs_dir = Path(ctx.params.get("runs_dir") or DEFAULT_RUNS_DIR)
    names = sorted((path.name for path in run_paths(runs_dir)), reverse=True)
    # The shell takes what is offered as it is, so that a name must need no quotes.
    plain = [LATEST, *(name for name in names if shlex.quote(name) == name)]
    fitting = [name for name in plain if name.startswith(start)]
    if not fitting or "/" in start or start == ".":
        return [CompletionItem(start, type="dir")]
    return [CompletionItem(name) for name in fitting]


def _matches(run: str, names: list[str]) -> list[str]:
    """The name itself, else the names that begin with it, else those that contain it."""
    if run in names:
        return [run]
    return [name for name in names if name.startswith(run)] or [
        name for name in names if run in name
    ]
