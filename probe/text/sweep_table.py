"""The table that a sweep ends with: settings first, then what they cost and what they brought."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.text import Text

from probe.analyse.compare.change import Change, Direction
from probe.analyse.compare.sweep import CellFigures
from probe.text.aligned import Cell, align, with_heading
from probe.text.printable import printable
from probe.units import (
    MISSING,
    format_bytes,
    format_count,
    format_duration,
    format_number,
    format_percent,
    format_ratio,
)

MOST_METRICS = 3
_SETTINGS = ("prec", "zero", "offload")
_FIGURES = ("step", "±", "against first", "peak", "skipped", "loss")
_STYLES = {Direction.LOWER: "green", Direction.HIGHER: "red"}


@dataclass(frozen=True, kw_only=True)
class SweepLine:
    """One cell: its settings, and its figures or why it has none."""

    precision: str
    stage: int
    offload: str
    figures: CellFigures | None
    remark: str = ""


def sweep_table(lines: Sequence[SweepLine]) -> list[Text]:
    """A line a cell."""
    names = sorted({name for line in lines if line.figures for name in line.figures.metrics})
    metrics = names[:MOST_METRICS]
    headings = (*_SETTINGS, *_FIGURES, *(printable(name, limit=16) for name in metrics))
    with_figures = [
        [*_settings(line), *_figures(line.figures, metrics)] for line in lines if line.figures
    ]
    right = [1, *range(len(_SETTINGS), len(headings))]
    right.remove(headings.index("against first"))
    table = with_heading(align([headings, *with_figures], right=right))
    remarks = [
        [*_settings(line), Text(printable(line.remark), style="yellow")]
        for line in lines
        if line.figures is None
    ]
    return [*table, *([Text("")] if remarks else []), *(align(remarks) if remarks else [])]


def _settings(line: SweepLine) -> list[Cell]:
    offload = MISSING if line.offload == "none" else line.offload
    return [line.precision, format_count(line.stage), offload]


def _figures(figures: CellFigures, metrics: Sequence[str]) -> list[Cell]:
    return [
        format_duration(figures.step_time_ns),
        format_percent(figures.reach),
        _against(figures.change),
        format_bytes(figures.peak_memory_bytes),
        format_count(figures.skipped_steps),
        format_number(figures.final_loss),
        *(format_number(figures.metrics.get(name)) for name in metrics),
    ]


def _against(change: Change | None) -> Cell:
    """The ratio of step times with its interval; in colour if it says more than the noise."""
    if change is None:
        return MISSING
    text = f"{format_ratio(change.ratio)} ({change.low:.2f}–{change.high:.2f})"
    return Text(text, style=_STYLES.get(change.direction, ""))
