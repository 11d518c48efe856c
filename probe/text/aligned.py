"""Cells in columns: two blanks between, nothing behind, one line a row.

A thousand rows cost milliseconds here; a `rich.table.Table` measures and wraps each cell, which
for rows that must not wrap is work for nothing.
"""

from collections.abc import Collection, Sequence

from rich.cells import cell_len
from rich.text import Text

GUTTER = "  "

Cell = Text | str


def align(rows: Sequence[Sequence[Cell]], *, right: Collection[int] = ()) -> list[Text]:
    """The rows as lines; the columns with an index in `right` end flush, all others begin so."""
    widths = [max(map(_width, column)) for column in zip(*rows, strict=True)]
    return [_line(row, widths, right) for row in rows]


def with_heading(lines: Sequence[Text], style: str = "bold") -> list[Text]:
    """The same lines with the first one marked as the heading."""
    lines[0].stylize(style)
    return list(lines)


def _line(row: Sequence[Cell], widths: Sequence[int], right: Collection[int]) -> Text:
    line = Text(no_wrap=True, overflow="ignore")
    for index, (cell, width) in enumerate(zip(row, widths, strict=True)):
        blanks = " " * (width - _width(cell))
        before, after = (blanks, "") if index in right else ("", blanks)
        line.append(GUTTER + before if index else before)
        line.append(cell)
        line.append(after)
    line.rstrip()
    return line


def _width(cell: Cell) -> int:
    return cell_len(cell if isinstance(cell, str) else cell.plain)
