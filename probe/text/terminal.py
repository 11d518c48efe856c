"""The one place that makes a console, so that every verb looks and behaves alike.

On a terminal: colours and its own width. In a pipe: plain text without trailing blanks, 80 columns
for prose unless COLUMNS says otherwise, and rows as long as they are, one row one line.
NO_COLOR takes the colours away, FORCE_COLOR brings them into a pipe.
"""

import shutil
from collections.abc import Iterable

from rich.console import Console, RenderableType
from rich.text import Text

PIPE_COLUMNS = 80
FEWEST_COLUMNS = 72
"""A narrower terminal wraps lines by itself: better than a number cut short by us."""
MOST_COLUMNS = 10_000


class _Console(Console):
    """A console that lets a broken pipe be handled where all errors are."""

    def on_broken_pipe(self) -> None:
        """Nobody reads any more; the entry point ends the program quietly."""
        raise BrokenPipeError


def make_console(*, stderr: bool = False) -> Console:
    """A console on stdout, or on stderr for progress and remarks."""
    columns = shutil.get_terminal_size(fallback=(PIPE_COLUMNS, 24)).columns
    return _Console(
        stderr=stderr,
        # What stands in a run is text: no markup, no emoji codes, no guessing at numbers.
        markup=False,
        emoji=False,
        highlight=False,
        width=min(max(columns, FEWEST_COLUMNS), MOST_COLUMNS),
    )


def print_plainly(console: Console, view: RenderableType) -> None:
    """Print a view; where no colours are wanted, without the blanks that fill up its lines."""
    if console.is_terminal:
        console.print(view)
        return
    with console.capture() as captured:
        console.print(view)
    lines = captured.get().split("\n")
    print("\n".join(line.rstrip() for line in lines), end="", file=console.file)


def print_lines(console: Console, lines: Iterable[Text]) -> None:
    """Print lines that are whole as they are; a long one is never cut."""
    for line in lines:
        console.print(line, soft_wrap=True)


def row_columns(console: Console) -> int:
    """How long a row may get: what reads a pipe wants whole rows."""
    return console.width if console.file.isatty() else MOST_COLUMNS
