"""How values fit their 16-bit types: exponents against the ranges, underflow and headroom."""

from typing import Any

import numpy as np
import plotly.graph_objects as go

from probe.analyse.precision.numerics import GradientRange, LostUpdates
from probe.analyse.series.exponents import ExponentHistogram, UnderflowByParameter
from probe.figures.names import plain, words
from probe.figures.palette import BAD, HEAT, PLAIN, Look, bar_fill, line_of
from probe.figures.scales import heat_axis, power_words, small_floats, small_steps
from probe.figures.theme import new_figure
from probe.figures.thinning import points_caption, thin
from probe.units import format_count, format_number, format_percent

MOST_PARAMETERS = 20
_MARGIN = 3
_FP16 = ((-24, -14, "fp16 subnormal"), (-14, 16, "fp16 normal"))
_BF16 = ((-133, -126, "bf16 subnormal"), (-126, 128, "bf16 normal"))
_SHADE = {"fp16 normal": 0.16, "fp16 subnormal": 0.08, "bf16 normal": 0.07, "bf16 subnormal": 0.04}
_HUE = {"fp16": "61,155,115", "bf16": "47,122,192"}


def exponent_histogram(histogram: ExponentHistogram) -> Any:
    """Elements by power of two over what fp16 and bf16 can hold, at the scale in use."""
    exponents, elements = histogram.exponent, histogram.elements
    below = int(elements[exponents < -24].sum())
    subnormal = int(elements[(exponents >= -24) & (exponents < -14)].sum())
    beyond = int(elements[exponents >= 16].sum())
    total = max(1, int(elements.sum()))
    said = (
        f"in fp16 {format_percent(below / total)} would vanish, "
        f"{format_percent(subnormal / total)} be subnormal, "
        f"{format_percent(beyond / total)} overflow"
    )
    low = min(-24, int(exponents[0])) - _MARGIN
    high = max(16, int(exponents[-1]) + 1) + _MARGIN
    role = plain(f"{histogram.role}s ({histogram.dtype})" if histogram.dtype else histogram.role)
    figure = new_figure(
        title=f"Exponents of {role}",
        alternative=f"{format_count(total)} elements between 2^{int(exponents[0])} and "
        f"2^{int(exponents[-1]) + 1}: {said}.",
        caption=f"{histogram.samples:,} histograms of {_steps(histogram)}, {_scale(histogram)}; "
        f"{format_count(histogram.zero_elements)} zeros and "
        f"{format_count(histogram.nonfinite_elements)} that are no number are left out; {said}.",
        bargap=0.08,
        hovermode="closest",
        showlegend=False,
        xaxis={
            "title": {"text": "magnitude, power of two"},
            "range": [low, high],
            "showgrid": False,
        },
        yaxis={
            "title": {"text": "elements [log]"},
            "type": "log",
            "exponentformat": "SI",
            "dtick": 1,
            "range": [0, float(np.log10(max(10, elements.max()))) + 0.9],
        },
        shapes=[
            {
                "type": "rect",
                "layer": "below",
                "x0": max(begin, low),
                "x1": min(end, high),
                "y0": 0,
                "y1": 1,
                "yref": "paper",
                "line": {"width": 0},
                "fillcolor": f"rgba({_HUE[name[:4]]},{_SHADE[name]})",
            }
            for begin, end, name in (*_BF16, *_FP16)
            if end > low and begin < high
        ],
    )
    for begin, end, name, height in (
        (-24, -14, "fp16<br>subnormal", 1.0),
        (-14, 16, "fp16 normal", 1.0),
        (max(-126, low), -24, "bf16 only", 1.0),
    ):
        if end - begin >= 8:
            figure.add_annotation(
                x=(begin + end) / 2,
                y=height,
                yref="paper",
                yanchor="top",
                text=name,
                showarrow=False,
                font={"size": 11},
            )
    filled = elements > 0
    figure.add_trace(
        go.Bar(
            x=small_floats(exponents[filled] + 0.5),
            y=small_floats(elements[filled]),
            name="elements",
            marker=bar_fill(PLAIN),
            customdata=np.stack([exponents[filled], exponents[filled] + 1], axis=1).astype(
                np.int32
            ),
            hovertemplate="2^%{customdata[0]} to 2^%{customdata[1]}: %{y:,.4~s} elements"
            "<extra></extra>",
        )
    )
    return figure


def underflow_over_time(gradients: GradientRange) -> Any:
    """Shares of the sampled gradients that vanish or lose digits, and the room above."""
    steps = np.array(list(gradients.by_step), dtype=np.int64)
    fits = list(gradients.by_step.values())
    together = gradients.together
    room = np.array([_or_nan(fit.headroom_powers) for fit in fits])
    figure = new_figure(
        title="Underflow and headroom of gradients",
        alternative=f"{len(steps):,} sampled steps. In the whole run "
        f"{format_percent(together.underflow_share)} of the gradients underflow, "
        f"{format_percent(together.subnormal_share)} are subnormal, least headroom "
        f"{format_number(together.headroom_powers)} powers of two.",
        height=380,
        xaxis={"title": {"text": "step"}, "anchor": "y2"},
        yaxis={"title": {"text": "gradients [%]"}, "domain": [0.55, 1], "rangemode": "tozero"},
        yaxis2={"title": {"text": "headroom [2ⁿ]"}, "domain": [0, 0.45]},
    )
    drawn = len(steps)
    for name, values, look, axis in (
        ("underflow", [fit.underflow_share for fit in fits], BAD, "y"),
        (
            "subnormal",
            [fit.subnormal_share for fit in fits],
            Look(colour="#b8902f", dash="dash"),
            "y",
        ),
    ):
        y = np.array([_or_nan(value) for value in values]) * 100
        drawn = min(drawn, _line(figure, steps, y, name, look, axis, "%{y:.3~g} %"))
    if np.isfinite(room).any():
        _line(figure, steps, room, "headroom", PLAIN, "y2", "%{y:.3~g} powers")
    figure.layout.meta["caption"] = points_caption(drawn, len(steps), "sampled steps")
    return figure


def underflow_heatmap(underflow: UnderflowByParameter) -> Any:
    """Parameters down, sampled steps across: where in the model gradients vanish."""
    names = [plain(name, longest=34) for name in underflow.parameters]
    share = underflow.share * 100
    told = np.isfinite(share)
    mean = np.where(told, share, 0).sum(axis=1) / np.maximum(1, told.sum(axis=1))
    worst = int(mean.argmax())
    shown, total = len(names), underflow.of_parameters
    figure = new_figure(
        title="Underflow of each parameter's gradient",
        alternative=f"{shown} parameters by {len(underflow.step):,} sampled steps; worst is "
        f"{names[worst]} with {format_percent(float(mean[worst]) / 100)} on average.",
        caption="" if shown >= total else f"The {shown} worst of {total:,} parameters.",
        height=min(760, 150 + 17 * max(6, shown)),
        hovermode="closest",
        xaxis={"title": {"text": "step"}, "showgrid": False, "type": heat_axis(underflow.step)},
        yaxis={
            "showgrid": False,
            "autorange": "reversed",
            "tickfont": {"size": 10},
            "type": "category",
        },
    )
    figure.add_trace(
        go.Heatmap(
            x=small_steps(underflow.step),
            y=names,
            z=small_floats(share),
            colorscale=HEAT,
            zmin=0,
            zmax=float(np.nanmax(share)) or 1.0,
            colorbar={"title": {"text": "underflow [%]", "side": "right"}, "thickness": 12},
            hovertemplate="%{y}<br>step %{x}: %{z:.3~g} %<extra></extra>",
        )
    )
    return figure


def lost_updates_by_parameter(lost: LostUpdates) -> Any:
    """Weights that an update left as they were, by parameter."""
    lossy = [(name, share) for name, share in lost.by_parameter.items() if share]
    shown = lossy[:MOST_PARAMETERS]
    total = len(lost.by_parameter)
    figure = new_figure(
        title="Updates lost in rounding",
        alternative=f"{format_percent(lost.share)} of the sampled weights did not change; most in "
        + (plain(shown[0][0]) if shown else "none")
        + ".",
        caption=f"{len(lossy):,} of {total:,} parameters lost updates"
        + (f"; the {len(shown)} worst." if len(shown) < len(lossy) else "."),
        height=130 + 22 * max(3, len(shown)),
        hovermode="closest",
        xaxis={"title": {"text": "updates that vanished [%]"}, "rangemode": "tozero"},
        yaxis={
            "showgrid": False,
            "autorange": "reversed",
            "type": "category",
            "tickfont": {"size": 10},
        },
    )
    figure.add_trace(
        go.Bar(
            y=[plain(name, longest=34) for name, _ in shown],
            x=small_floats(np.array([share * 100 for _, share in shown])),
            orientation="h",
            name=words("lost_updates"),
            marker=bar_fill(BAD),
            hovertemplate="%{y}: %{x:.3~g} %<extra></extra>",
        )
    )
    return figure


def _line(
    figure: Any, steps: Any, values: Any, name: str, look: Look, axis: str, hover: str
) -> int:
    kept = thin(values)
    figure.add_trace(
        go.Scatter(
            x=small_steps(steps[kept]),
            y=small_floats(values[kept]),
            name=name,
            yaxis=axis,
            mode="lines+markers" if len(steps) <= 60 else "lines",
            marker={"size": 5},
            line=line_of(look),
            hovertemplate=hover,
        )
    )
    return len(kept)


def _steps(histogram: ExponentHistogram) -> str:
    first, last = histogram.first_step, histogram.last_step
    return f"step {first:,}" if first == last else f"steps {first:,} to {last:,}"


def _scale(histogram: ExponentHistogram) -> str:
    low, high = histogram.lowest_scale, histogram.highest_scale
    if low is None or high is None or low == high == 1:
        return "without a loss scale"
    if low == high:
        return f"at loss scale {power_words(low)}"
    return f"at loss scales {power_words(low)} to {power_words(high)}"


def _or_nan(value: float | None) -> float:
    return float("nan") if value is None else value
