"""Several runs in one chart: a quantity over steps, over time or over tokens."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
import numpy.typing as npt
import plotly.graph_objects as go

from probe.analyse.series.smoothing import smoothed
from probe.analyse.series.step_series import StepSeries
from probe.analyse.series.training_series import TrainingSeries
from probe.figures.names import plain
from probe.figures.palette import BAD, Look, line_of, run_look
from probe.figures.scales import Unit, power_axis, small_floats, small_steps, time_unit
from probe.figures.theme import new_figure
from probe.figures.thinning import points_caption, thin, thin_marks
from probe.units import format_duration, format_exact, format_number

RIM = 0.97


class Quantity(StrEnum):
    """What is overlaid."""

    LOSS = "loss"
    GRAD_NORM = "gradient norm"
    LOSS_SCALE = "loss scale"
    STEP_TIME = "step time"


class Along(StrEnum):
    """What it is drawn over."""

    STEP = "step"
    TIME = "time"
    TOKENS = "tokens"


@dataclass(frozen=True, kw_only=True, eq=False)
class OverlaidRun:
    """One run of a comparison, over time; its place decides its look."""

    label: str
    """A name from outside; it is made plain here."""
    steps: StepSeries
    training: TrainingSeries


def can_overlay(runs: Sequence[OverlaidRun], quantity: Quantity) -> bool:
    """Whether any run states it; a loss scale that is one throughout is the absence of one."""
    if quantity is Quantity.LOSS_SCALE:
        return any((run.training.scale[~np.isnan(run.training.scale)] != 1).any() for run in runs)
    return any(_values(run, quantity)[1].any() for run in runs)


def overlay(
    runs: Sequence[OverlaidRun],
    quantity: Quantity,
    *,
    along: Along = Along.STEP,
    smoothing: float = 0.0,
) -> Any:
    """One line a run; runs that do not tell are named in the caption.

    Smoothed before it is thinned; the line itself stays, faint. A loss scale is a step function and
    never smoothed.
    """
    if quantity is Quantity.LOSS_SCALE:
        smoothing = 0.0
    told = [(place, run) for place, run in enumerate(runs) if _values(run, quantity)[1].any()]
    if along is Along.TOKENS:
        told = [(place, run) for place, run in told if run.steps.tokens is not None]
    silent = [plain(run.label) for run in runs if all(run is not other for _, other in told)]
    unit = Unit(name="", size=1.0)
    if quantity is Quantity.STEP_TIME:
        unit = time_unit(*(run.steps.wall_ns for _, run in told))
    time = time_unit(*(run.steps.elapsed_ns for _, run in told))
    figure = new_figure(
        title=f"{quantity.capitalize()} of {len(told)} runs",
        alternative="; ".join(_ends(run, quantity) for _, run in told) + ".",
        xaxis={
            "title": {
                "text": {
                    Along.STEP: "step",
                    Along.TIME: f"time in steps since the first [{time.name}]",
                    Along.TOKENS: "tokens of all ranks since the first step",
                }[along]
            }
        },
        yaxis=_y_axis(told, quantity, unit),
        yaxis2={"overlaying": "y", "range": [0, 1], "fixedrange": True, "visible": False},
    )
    least = (1, 1)
    for place, run in told:
        values, stated = _values(run, quantity)
        look, label = run_look(place), plain(run.label)
        x = _positions(run, along, time)[stated]
        y = values[stated]
        kept = thin(y, keep=run.training.overflowed[stated])
        least = min(least, (len(kept), len(y)), key=lambda pair: pair[0] / max(1, pair[1]))
        finite = np.isfinite(y)
        line = np.where(finite, y, np.nan)
        if smoothing:
            figure.add_trace(
                go.Scatter(
                    x=x[kept],
                    y=unit.of(line[kept]),
                    name=f"{label}, as recorded",
                    mode="lines",
                    line=line_of(look, 1.0),
                    opacity=0.25,
                    showlegend=False,
                    hoverinfo="skip",
                )
            )
            line = smoothed(line, smoothing)
        figure.add_trace(
            go.Scatter(
                x=x[kept],
                y=unit.of(line[kept]),
                name=label,
                mode="lines+markers" if len(kept) <= 30 else "lines",
                marker={"symbol": look.symbol, "size": 6},
                line={**line_of(look, 1.5), "shape": _shape(quantity)},
                hovertemplate=f"%{{y:.5~g}} {unit.name}".rstrip(),
            )
        )
        if not finite.all():
            _add_rim(figure, x, finite, look, label)
    remarks = [points_caption(*least)]
    remarks += [f"Smoothed: the past weighs {smoothing:g}."] if smoothing else []
    remarks += [f"Not told by {', '.join(silent)}."] if silent else []
    figure.layout.meta["caption"] = " ".join(filter(None, remarks))
    return figure


def _add_rim(figure: Any, x: Any, finite: npt.NDArray[np.bool_], look: Look, label: str) -> None:
    """Values without a height, at the upper rim."""
    marks, counts = thin_marks(np.flatnonzero(~finite), len(finite))
    figure.add_trace(
        go.Scatter(
            x=x[marks],
            y=np.full(len(marks), RIM, dtype=np.float32),
            yaxis="y2",
            name=f"{label}: no number",
            mode="markers",
            customdata=small_steps(counts),
            marker={
                "symbol": BAD.symbol,
                "size": 8,
                "color": look.colour,
                "line": {"width": 1, "color": BAD.colour},
            },
            hovertemplate="nan or inf (%{customdata})",
        )
    )


def _values(run: OverlaidRun, quantity: Quantity) -> tuple[Any, npt.NDArray[np.bool_]]:
    training = run.training
    if quantity is Quantity.LOSS:
        return training.loss, training.has_loss
    if quantity is Quantity.GRAD_NORM:
        return training.grad_norm, training.has_grad_norm
    if quantity is Quantity.LOSS_SCALE:
        return training.scale, ~np.isnan(training.scale)
    return run.steps.wall_ns.astype(np.float64), np.ones(len(run.steps), dtype=np.bool_)


def _positions(run: OverlaidRun, along: Along, time: Unit) -> Any:
    if along is Along.TIME:
        return time.of(run.steps.elapsed_ns)
    if along is Along.TOKENS:
        assert run.steps.tokens is not None, "runs without tokens were left out"
        return small_floats(run.steps.tokens)
    return small_steps(run.steps.step)


def _y_axis(
    told: Sequence[tuple[int, OverlaidRun]], quantity: Quantity, unit: Unit
) -> dict[str, Any]:
    if quantity is Quantity.LOSS_SCALE:
        scales = [run.training.scale for _, run in told]
        return {"title": {"text": "loss scale"}, **power_axis(*scales)}
    if quantity is Quantity.STEP_TIME:
        return {
            "title": {"text": f"step time [{unit.name}]"},
            "rangemode": "tozero",
        }
    return {"title": {"text": str(quantity)}}


def _shape(quantity: Quantity) -> str:
    return "hv" if quantity is Quantity.LOSS_SCALE else "linear"


def _ends(run: OverlaidRun, quantity: Quantity) -> str:
    values, stated = _values(run, quantity)
    last = float(values[stated][-1])
    said = format_duration(last) if quantity is Quantity.STEP_TIME else format_number(last)
    return f"{plain(run.label)}: {format_exact(int(stated.sum()))} steps, the last {said}"
