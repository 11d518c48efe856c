"""The one place that makes a console, so that every verb looks and behaves alike.

On a terminal: colours and its own width. In a pipe: plain text without trailing blanks, 80 columns
for prose unless COLUMNS says otherwise, and tables as wide as they need, one row one line.
NO_COLOR takes the colours away, FORCE_COLOR brings them into a pipe.
"""

import os
import sys

from rich.console import Console, RenderableType

PIPE_COLUMNS = 80
FEWEST_COLUMNS = 40
_UNBOUNDED_COLUMNS = 10_000


def make_console(*, stderr: bool = False) -> Console:
    """A console on stdout, or on stderr for progress and remarks."""
    stream = sys.stderr if stderr else sys.stdout
    on_terminal = stream.isatty()
    return Console(
        stderr=stderr,
        # What stands in a run is text: no markup, no emoji codes, no guessing at numbers.
        markup=False,
        emoji=False,
        highlight=False,
        width=_columns() or (None if on_terminal else PIPE_COLUMNS),
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


def print_rows(console: Console, view: RenderableType) -> None:
    """Print a table; what reads a pipe wants whole rows, however long."""
    if not console.file.isatty():
        console.width = _UNBOUNDED_COLUMNS
    print_plainly(console, view)


def _columns() -> int | None:
    """The width that COLUMNS asks for, if it is one."""
    asked = os.environ.get("COLUMNS", "")
    if not asked.isdecimal() or int(asked) == 0:
        return None
    return max(FEWEST_COLUMNS, min(int(asked), _UNBOUNDED_COLUMNS))
