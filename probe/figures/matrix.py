"""Precision × stage × offload: the runs of a comparison in the table that people ask for."""

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Any

import numpy as np
import plotly.graph_objects as go

from probe.analyse.compare.comparison import RunLine
from probe.figures.palette import CELLS
from probe.figures.scales import size_unit, small_floats, time_unit
from probe.figures.theme import new_figure
from probe.schema.vocabulary import Precision, Tier
from probe.units import format_bytes, format_count, format_duration


class CellValue(StrEnum):
    """What the cells of the matrix tell."""

    STEP_TIME = "step time"
    PEAK_MEMORY = "peak memory"
    THROUGHPUT = "throughput"


_VALUE: Mapping[CellValue, Callable[[RunLine], float | None]] = {
    CellValue.STEP_TIME: lambda run: run.step_time_ns,
    CellValue.PEAK_MEMORY: lambda run: run.peak_memory_bytes,
    CellValue.THROUGHPUT: lambda run: run.throughput,
}
_WORDS: Mapping[CellValue, Callable[[float | None], str]] = {
    CellValue.STEP_TIME: format_duration,
    CellValue.PEAK_MEMORY: format_bytes,
    CellValue.THROUGHPUT: lambda value: f"{format_count(value)}/s",
}


def spans_a_matrix(runs: Sequence[RunLine]) -> bool:
    """Whether the runs differ along at least two of precision, stage and offload."""
    axes = ({run.precision for run in runs}, {run.stage for run in runs}, set(map(_offload, runs)))
    return sum(len(axis) > 1 for axis in axes) >= 2


def setup_matrix(runs: Sequence[RunLine], value: CellValue = CellValue.STEP_TIME) -> Any:
    """Precisions down, stages and offloads across; of several runs in a cell the median."""
    told = [run for run in runs if run.stage is not None and run.precision is not None]
    rows = [item for item in Precision if any(run.precision is item for run in told)]
    columns = sorted({(run.stage or 0, _offload(run)) for run in told})
    cells: dict[tuple[int, int], list[float]] = {}
    for run in told:
        amount = _VALUE[value](run)
        if amount is not None and run.precision is not None:
            place = rows.index(run.precision), columns.index((run.stage or 0, _offload(run)))
            cells.setdefault(place, []).append(float(amount))
    numbers = np.full((len(rows), len(columns)), np.nan)
    texts = [["" for _ in columns] for _ in rows]
    for (row, column), amounts in cells.items():
        numbers[row, column] = float(np.median(amounts))
        texts[row][column] = _WORDS[value](numbers[row, column])
    unit = {
        CellValue.STEP_TIME: time_unit(numbers),
        CellValue.PEAK_MEMORY: size_unit(numbers),
    }.get(value)
    z = small_floats(numbers) if unit is None else unit.of(numbers)
    across = [f"ZeRO {stage}{f'<br>{offload}' if offload else ''}" for stage, offload in columns]
    named = "1/s" if unit is None else unit.name
    figure = new_figure(
        title=f"{value.capitalize()} by precision, stage and offload",
        alternative="; ".join(
            f"{rows[row]} {across[column].replace('<br>', ' ')} {texts[row][column]}"
            for row, column in sorted(cells)
        )
        + ".",
        caption="Empty cells have no run.",
        height=150 + 52 * max(1, len(rows)),
        hovermode="closest",
        xaxis={"side": "top", "type": "category", "showgrid": False, "showline": False},
        yaxis={"type": "category", "showgrid": False, "autorange": "reversed"},
    )
    figure.add_trace(
        go.Heatmap(
            x=across,
            y=[str(row) for row in rows],
            z=z,
            text=texts,
            texttemplate="%{text}",
            textfont={"size": 13, "color": "#ffffff"},
            xgap=3,
            ygap=3,
            colorscale=CELLS if value is not CellValue.THROUGHPUT else _reversed(CELLS),
            colorbar={"title": {"text": f"{value} [{named}]", "side": "right"}, "thickness": 12},
            hovertemplate="%{y}, %{x}: %{text}<extra></extra>",
        )
    )
    return figure


def _offload(run: RunLine) -> str:
    parts = [
        f"{what} on {tier}"
        for what, tier in (("optimizer", run.offload_optimizer), ("params", run.offload_params))
        if tier is not Tier.DEVICE
    ]
    return ", ".join(parts)


def _reversed(scale: Sequence[Sequence[Any]]) -> list[list[Any]]:
    return [[1 - place, colour] for place, colour in reversed(scale)]
