"""`probe app`: the dashboard in a browser."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import click

from probe.commands.choosing import DEFAULT_RUNS_DIR, RUNS_DIR_VARIABLE
from probe.errors import UsageError

LOOPBACK = "127.0.0.1"
DEFAULT_PORT = 8501


@click.command("app")
@click.argument(
    "folders", metavar="[RUNS]...", nargs=-1, type=click.Path(file_okay=False, path_type=Path)
)
@click.option(
    "--port",
    type=click.IntRange(1, 65535),
    default=DEFAULT_PORT,
    show_default=True,
    metavar="N",
    help="Port on this machine.",
)
@click.option(
    "--host",
    default=LOOPBACK,
    show_default=True,
    metavar="ADDRESS",
    help="Address to listen at; any other than the default opens the runs to others.",
)
@click.option("--no-browser", is_flag=True, help="Do not open a browser.")
def command(folders: tuple[Path, ...], port: int, host: str, no_browser: bool) -> None:
    """Open the dashboard on one folder of runs, or on several.

    RUNS is "runs" by default, or what PROBE_RUNS says. It needs `pip install 'zeroprobe[app]'`.

    \b
    Example: probe app runs /scratch/more_runs
    """
    if importlib.util.find_spec("streamlit") is None:
        raise UsageError("The dashboard needs Streamlit; `pip install 'zeroprobe[app]'` brings it.")
    missing = [folder for folder in folders if not folder.is_dir()]
    if missing:
        raise UsageError(f"{missing[0]} does not exist; `probe run SCRIPT` records a first run.")
    named = [str(folder.absolute()) for folder in folders]
    named = named or os.environ.get(RUNS_DIR_VARIABLE, DEFAULT_RUNS_DIR).split(os.pathsep)
    # A browser opens the loopback address where the server listens at all of them.
    shown = "localhost" if host in (LOOPBACK, "0.0.0.0", "::") else host
    click.echo(f"http://{shown}:{port} shows {', '.join(named)}; Ctrl-C ends it.")
    sys.stdout.flush()
    # -P: a user's own app.py in this folder is not ours.
    call = [sys.executable, "-P", "-m", "streamlit", "run", str(main_file())]
    call += ["--server.port", str(port), "--server.address", host]
    call += ["--server.headless", str(no_browser).lower(), "--", *named]
    ended = subprocess.run(call, check=False)
    if ended.returncode:
        raise UsageError(f"The dashboard ended with exit code {ended.returncode}; see above.")


def main_file() -> Path:
    """The script that Streamlit runs: a file of the installed package `app`."""
    found = importlib.util.find_spec("app")
    places = found.submodule_search_locations if found else None
    main = Path(next(iter(places), "")) / "main.py" if places else Path("main.py")
    if not main.is_file():
        raise UsageError("The dashboard's pages are not installed; install ZeroProbe anew.")
    return main
