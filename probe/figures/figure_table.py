"""The data of a figure as a table: a row a point, as it is drawn."""

import csv
import io
from collections.abc import Iterator
from html import unescape
from typing import Any

import numpy as np


def figure_table(figure: Any) -> dict[str, list[Any]]:
    """Columns by name; what a column holds is the title of its axis."""
    x, y = (_title(figure, axis) for axis in ("xaxis", "yaxis"))
    table: dict[str, list[Any]] = {"series": [], x or "x": [], y or "y": []}
    heat = any(getattr(trace, "z", None) is not None for trace in figure.data)
    if heat:
        table["value"] = []
    columns = list(table.values())
    for trace in figure.data:
        for row in _rows(trace, heat=heat):
            for column, value in zip(columns, (_plain(trace.name or ""), *row), strict=True):
                column.append(_plain(value))
    return table


def figure_csv(figure: Any) -> str:
    """The same as CSV."""
    table = figure_table(figure)
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(table)
    writer.writerows(zip(*table.values(), strict=True))
    return out.getvalue()


def _rows(trace: Any, *, heat: bool) -> Iterator[tuple[Any, ...]]:
    z = getattr(trace, "z", None)
    if z is None:
        count = max(len(values) for values in (trace.x, trace.y) if values is not None)
        for x, y in zip(_values(trace.x, count), _values(trace.y, count), strict=True):
            yield (x, y, None) if heat else (x, y)
        return
    rows, places = np.shape(z)
    names, steps = _values(trace.y, rows), _values(trace.x, places)
    for name, line in zip(names, z, strict=True):
        for step, value in zip(steps, line, strict=True):
            yield step, name, value


def _values(values: Any, count: int) -> list[Any]:
    return list(range(count)) if values is None else np.asarray(values).tolist()


def _plain(value: Any) -> Any:
    """Names in figures are written with entities; numbers are Python's own."""
    if isinstance(value, str):
        return unescape(value)
    return value.item() if isinstance(value, np.generic) else value


def _title(figure: Any, axis: str) -> str:
    return unescape(figure.layout[axis].title.text or "")
