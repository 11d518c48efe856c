"""The loss scale as it was, with what happened to it, above loss and gradient norm on one axis.

The scale is a step function and drawn exactly: a point wherever it changes. A loss or a norm that
is no number has no height; it is drawn at the rim of its panel, so that it is always seen, zoomed
or not. Faint lines through all panels mark the steps that were skipped.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import plotly.graph_objects as go

from probe.analyse.series.training_series import Flags, Floats, TrainingSeries
from probe.figures.palette import BAD, GOOD, PLAIN, Look, line_of
from probe.figures.scales import power_axis, power_words, small_floats, small_steps
from probe.figures.theme import new_figure
from probe.figures.thinning import (
    MOST_POINTS,
    Positions,
    points_caption,
    thin,
    thin_marks,
    thin_steps,
)
from probe.units import format_exact, format_number

PANEL = 150
"""Pixels of one panel."""
MOST_GUIDES = 300
RIM = 0.96
"""Where on a panel, from 0 to 1, values without a height are drawn."""
_SCALE_LINE = Look(colour="#9a6fc4")
_LOWERED = Look(colour="#cf5a2c", symbol="triangle-down")
_SPENT = Look(colour="#b8902f", symbol="circle-open")
_EMPTY = Look(colour="#8b929b", symbol="line-ew-open")


@dataclass(frozen=True, kw_only=True)
class _Panel:
    """One of the stacked charts."""

    title: str
    values: Floats
    stated: Flags
    look: Look


def training_story(series: TrainingSeries) -> Any:
    """Loss, gradient norm and loss scale over the steps; panels that were not recorded are left
    out."""
    scaled = bool((~np.isnan(series.scale)).any() and np.nanmax(series.scale) != 1)
    panels = [
        _Panel(title="loss", values=series.loss, stated=series.has_loss, look=PLAIN),
        _Panel(
            title="gradient norm",
            values=series.grad_norm,
            stated=series.has_grad_norm,
            look=Look(colour="#3a936d"),
        ),
    ]
    panels = [panel for panel in panels if panel.stated.any()]
    count = max(1, len(panels) + scaled)
    figure = new_figure(
        title="Loss, gradient norm and loss scale" if scaled else "Loss and gradient norm",
        alternative=_alternative(series, scaled=scaled),
        height=90 + PANEL * count,
        **_axes(panels, series.scale if scaled else None),
    )
    changed = series.overflowed | series.without_gradient | series.raised | series.lowered
    _add_guides(figure, series, panels=count)
    drawn = []
    for place, panel in enumerate(panels, start=1):
        drawn.append(_add_panel(figure, series, panel, changed, place=place))
    if scaled:
        drawn.append(_add_scale(figure, series, place=count))
    least = min(drawn, key=lambda pair: pair[0] / max(1, pair[1]), default=(0, 0))
    figure.layout.meta["caption"] = points_caption(*least)
    return figure


def _add_panel(
    figure: Any, series: TrainingSeries, panel: _Panel, changed: Flags, *, place: int
) -> tuple[int, int]:
    """The line, and at the rim what is no number; how many points of how many are drawn."""
    step, values = series.step[panel.stated], panel.values[panel.stated]
    kept = thin(values, keep=changed[panel.stated])
    finite = np.isfinite(values)
    figure.add_trace(
        go.Scatter(
            x=small_steps(step[kept]),
            y=small_floats(np.where(finite, values, np.nan)[kept]),
            name=panel.title,
            mode="lines+markers" if len(values) <= 30 else "lines",
            marker={"size": 4},
            line=line_of(panel.look, 1.2),
            yaxis=f"y{place}",
            connectgaps=False,
            hovertemplate="%{y:.5~g}",
        )
    )
    for kind, symbol, chosen in (
        ("nan", "x", np.isnan(values)),
        ("inf", "triangle-up", np.isposinf(values)),
        ("-inf", "triangle-down", np.isneginf(values)),
    ):
        if chosen.any():
            marks, counts = thin_marks(np.flatnonzero(chosen), len(values))
            figure.add_trace(
                go.Scatter(
                    x=small_steps(step[marks]),
                    y=np.full(len(marks), 1 - RIM if kind == "-inf" else RIM, dtype=np.float32),
                    name=f"{panel.title} is {kind}",
                    mode="markers",
                    marker={"symbol": symbol, "size": 8, "color": BAD.colour},
                    yaxis=_rim_axis(place),
                    customdata=small_steps(counts),
                    hovertemplate=f"{kind} (%{{customdata}})",
                )
            )
    return len(kept), len(values)


def _add_scale(figure: Any, series: TrainingSeries, *, place: int) -> tuple[int, int]:
    """The step function and its events; how many points of how many are drawn."""
    stated = ~np.isnan(series.scale)
    step, scale = series.step[stated], series.scale[stated]
    corners = thin_steps(scale)
    kept = corners[thin(scale[corners])] if len(corners) > MOST_POINTS else corners
    figure.add_trace(
        go.Scatter(
            x=small_steps(step[kept]),
            y=small_floats(scale[kept]),
            name="loss scale",
            mode="lines",
            line={**line_of(_SCALE_LINE, 1.6), "shape": "hv"},
            yaxis=f"y{place}",
            hovertemplate="%{y:,.6~g}",
        )
    )
    following = np.append(scale[1:], scale[-1:])
    for name, flags, look, level in (
        ("overflow, skipped", series.overflowed, BAD, scale),
        ("no gradient, skipped", series.without_gradient, _EMPTY, scale),
        ("hysteresis spent", series.hysteresis_spent, _SPENT, scale),
        # At the level that it goes to: where it comes from the overflow stands.
        ("scale lowered", series.lowered, _LOWERED, following),
        ("scale raised", series.raised, GOOD, following),
    ):
        places = np.flatnonzero(flags[stated])
        if not len(places):
            continue
        marks, counts = thin_marks(places, len(step))
        size = 13 if look is _SPENT else 8
        figure.add_trace(
            go.Scatter(
                x=small_steps(step[marks]),
                y=small_floats(level[marks]),
                name=name,
                mode="markers",
                marker={
                    "symbol": look.symbol,
                    "size": size,
                    "color": look.colour,
                    "line": {"width": 1.5, "color": look.colour},
                },
                yaxis=f"y{place}",
                customdata=small_steps(counts),
                hovertemplate="%{y:,.6~g} (%{customdata})",
            )
        )
    return (len(kept), len(corners)) if len(kept) < len(corners) else (1, 1)


def _add_guides(figure: Any, series: TrainingSeries, *, panels: int) -> None:
    """A faint line through every panel for each skipped step, or for each crowd of them."""
    places = np.flatnonzero(series.overflowed | series.without_gradient)
    if not len(places):
        return
    marks: Positions = thin_marks(places, len(series), limit=MOST_GUIDES)[0]
    x = small_steps(np.repeat(series.step[marks], 3))
    y = np.tile(np.array([0, 1, np.nan], dtype=np.float32), len(marks))
    for place in range(1, panels + 1):
        figure.add_trace(
            go.Scatter(
                x=x,
                y=y,
                name="skipped",
                mode="lines",
                yaxis=_rim_axis(place),
                hoverinfo="skip",
                showlegend=False,
                opacity=0.35,
                line={"width": 1, "color": BAD.colour, "dash": "dot"},
            )
        )


def _axes(panels: list[_Panel], scale: Floats | None) -> dict[str, Any]:
    """Panels from top to bottom on one x axis, each with an invisible axis for its rim."""
    titles = [panel.title for panel in panels]
    titles += [] if scale is None else ["loss scale"]
    count = max(1, len(titles))
    gap = 0.06
    height = (1 - gap * (count - 1)) / count
    axes: dict[str, Any] = {"xaxis": {"title": {"text": "step"}, "anchor": "free", "position": 0}}
    for place, title in enumerate(titles, start=1):
        top = 1 - (place - 1) * (height + gap)
        axis: dict[str, Any] = {
            "domain": [max(0.0, top - height), top],
            "title": {"text": title},
            "anchor": "x",
        }
        if scale is not None and place == count:
            axis |= {"title": {"text": "loss scale"}, **power_axis(scale)}
        axes["yaxis" if place == 1 else f"yaxis{place}"] = axis
        axes[_rim_axis(place).replace("y", "yaxis")] = {
            "overlaying": "y" if place == 1 else f"y{place}",
            "range": [0, 1],
            "fixedrange": True,
            "visible": False,
        }
    return axes


def _rim_axis(place: int) -> str:
    return f"y{place + 10}"


def _alternative(series: TrainingSeries, *, scaled: bool) -> str:
    stated = series.loss[series.has_loss]
    said = [f"{format_exact(len(series))} steps"]
    if len(stated):
        ends = [float(stated[0]), float(stated[-1])]
        said.append(f"loss from {format_number(ends[0])} to {format_number(ends[1])}")
        said.append(f"{format_exact(int((~np.isfinite(stated)).sum()))} losses that are no number")
    said.append(f"{format_exact(int(series.overflowed.sum()))} overflows")
    if scaled:
        scale = series.scale[~np.isnan(series.scale)]
        said.append(
            f"loss scale between {power_words(float(scale.min()))} and "
            f"{power_words(float(scale.max()))}, raised {int(series.raised.sum())} times, "
            f"lowered {int(series.lowered.sum())} times"
        )
    return "; ".join(said) + "."
