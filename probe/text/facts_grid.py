"""Names and texts in two columns: how facts of a run are listed everywhere."""

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from probe.text.printable import printable

LONGEST_TEXT = 300
"""Characters of a text of the run that are shown; --json gives the whole."""
NAMES = 11
"""Width of the column of names, in facts and tables alike."""


def facts_grid(facts: Sequence[tuple[str, str]]) -> Table:
    """Names and texts in two columns; facts that the run does not tell are left out."""
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True, style="dim", min_width=NAMES)
    grid.add_column(overflow="fold")
    for name, text in facts:
        if text:
            grid.add_row(name, Text(printable(text, limit=LONGEST_TEXT), overflow="fold"))
    return grid
