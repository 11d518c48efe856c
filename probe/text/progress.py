"""How far a long piece of work is: one line on stderr of a terminal, nothing anywhere else."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from probe.schema.tables import TABLES, Table
from probe.text.printable import printable
from probe.text.terminal import make_console


@contextmanager
def table_progress(verb: str) -> Iterator[Callable[[Table], None]]:
    """Gives a function to call with each table as its turn comes."""
    console = make_console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(bar_width=20), MofNCompleteColumn())
    with Progress(
        *columns, console=console, transient=True, disable=not console.file.isatty()
    ) as progress:
        task = progress.add_task(verb, total=len(TABLES))

        def show(table: Table) -> None:
            place = TABLES.index(table)
            progress.update(task, description=f"{verb} {table.name}", completed=place)

        yield show


@contextmanager
def file_progress(verb: str) -> Iterator[Callable[[Path, int, int], None]]:
    """Gives a function to call with each file, its number from 0 and how many there are."""
    console = make_console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(bar_width=20), MofNCompleteColumn())
    with Progress(
        *columns, console=console, transient=True, disable=not console.file.isatty()
    ) as progress:
        task = progress.add_task(verb, total=None)

        def show(path: Path, number: int, count: int) -> None:
            text = f"{verb} {printable(path.name)}"
            progress.update(task, description=text, completed=number, total=count)

        yield show
