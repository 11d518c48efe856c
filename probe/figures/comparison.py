"""One side against the first: the waterfall of a step, ratios with intervals, runs at a glance."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import plotly.graph_objects as go

from probe.analyse.compare.comparison import Comparison, Pair
from probe.analyse.compare.measure import METRIC, MeasureChange, Outcome
from probe.analyse.compare.waterfall import Waterfall
from probe.figures.names import plain, words
from probe.figures.palette import (
    BAD,
    GOOD,
    NEUTRAL,
    PHASES,
    Look,
    bar_fills,
    line_of,
    run_look,
)
from probe.figures.scales import size_unit, small_floats, time_unit
from probe.figures.theme import new_figure
from probe.units import format_bytes, format_duration, format_percent

SEEN_SHARE = 0.002
"""Phases below this share of the step in both sides are summed up in one bar."""
_OUTCOME = {
    Outcome.BETTER: GOOD,
    Outcome.WORSE: BAD,
    Outcome.NEUTRAL: Look(colour=NEUTRAL.colour, symbol="circle"),
}


def waterfall_of_phases(fall: Waterfall, *, first: str, second: str) -> Any:
    """From a usual step of one side to that of the other, phase by phase; the bars sum."""
    largest = max(fall.first_ns, fall.second_ns)
    shown = [
        part for part in fall.phases if max(part.first_ns, part.second_ns) > SEEN_SHARE * largest
    ]
    steps = [(words(part.phase), part.delta_ns, PHASES[part.phase]) for part in shown]
    rest = fall.second_ns - fall.first_ns - sum(part.delta_ns for part in shown)
    if len(shown) < len(fall.phases) and abs(rest) >= 1:
        steps.append(("all others", rest, NEUTRAL))
    unit = time_unit(np.array([largest]))
    ends = np.cumsum([fall.first_ns, *(delta for _, delta, _ in steps)])
    starts = ends[:-1]
    names = [plain(first), *(name for name, _, _ in steps), plain(second)]
    total = fall.second_ns - fall.first_ns
    low = min(float(ends.min()), fall.second_ns)
    # The bars are the story: an axis from zero would hide them under two tall ones.
    floor = max(0.0, low - 1.5 * (max(float(ends.max()), fall.second_ns) - low))
    figure = new_figure(
        title=f"Where the difference of a step comes from: {plain(second)} against {plain(first)}",
        alternative=f"{format_duration(fall.first_ns)} to {format_duration(fall.second_ns)}: "
        + ", ".join(f"{name} {_signed(delta)}" for name, delta, _ in steps)
        + ".",
        caption=f"The bars sum to {_signed(total)}; means over the middle half of the steps."
        + (f" The axis begins at {format_duration(floor)}." if floor else ""),
        height=360,
        bargap=0.25,
        hovermode="closest",
        showlegend=False,
        xaxis={"type": "category", "categoryorder": "array", "categoryarray": names},
        yaxis={
            "title": {"text": f"step time [{unit.name}]"},
            "range": [
                float(floor / unit.size),
                float((max(float(ends.max()), fall.second_ns) * 1.06 - floor * 0.06) / unit.size),
            ],
        },
    )
    _add_bars(
        figure,
        [names[0], names[-1]],
        np.array([floor, floor]),
        np.array([fall.first_ns - floor, fall.second_ns - floor]),
        [NEUTRAL, NEUTRAL],
        [format_duration(fall.first_ns), format_duration(fall.second_ns)],
        unit,
    )
    _add_bars(
        figure,
        names[1:-1],
        np.minimum(starts, ends[1:]),
        np.abs(np.diff(ends)),
        [look for _, _, look in steps],
        [_signed(delta) for _, delta, _ in steps],
        unit,
    )
    # From each bar to the next at the height that both share.
    heights = np.repeat(ends, 3)
    heights[2::3] = np.nan
    figure.add_trace(
        go.Scatter(
            x=[name for pair in pairwise(names) for name in (*pair, pair[1])],
            y=unit.of(heights),
            mode="lines",
            hoverinfo="skip",
            line={**line_of(NEUTRAL, 1), "dash": "dot"},
        )
    )
    return figure


def _add_bars(
    figure: Any,
    names: list[str],
    base: Any,
    length: Any,
    looks: list[Look],
    texts: list[str],
    unit: Any,
) -> None:
    figure.add_trace(
        go.Bar(
            x=names,
            base=unit.bases(base),
            y=unit.of(length),
            marker=bar_fills(looks),
            text=texts,
            textposition="outside",
            textangle=0,
            cliponaxis=False,
            constraintext="none",
            hovertemplate="%{x}: %{text}<extra></extra>",
        )
    )


def ratio_intervals(pair: Pair, *, material: float) -> Any:
    """Every measured figure as a change with its 95 % interval, beside the band of "same"."""
    shown = [item for item in pair.measures if item.change is not None][::-1]
    centre = np.array([(item.change.ratio - 1) * 100 for item in shown if item.change])
    low = np.array([(item.change.low - 1) * 100 for item in shown if item.change])
    high = np.array([(item.change.high - 1) * 100 for item in shown if item.change])
    names = [measure_words(item) for item in shown]
    figure = new_figure(
        title=f"Change of {plain(pair.second)} against {plain(pair.first)}",
        alternative="; ".join(
            f"{name} {at:+.1f} % ({start:+.1f} to {end:+.1f} %): {item.verdict}"
            for name, at, start, end, item in zip(names, centre, low, high, shown, strict=True)
        )
        + ".",
        caption=f"Lines are 95 % intervals; the band is ±{format_percent(material)}, what counts "
        "as the same. Colour and mark say better (triangle), worse (cross) or neither (circle).",
        height=150 + 40 * max(2, len(shown)),
        hovermode="closest",
        showlegend=False,
        xaxis={"title": {"text": "change [%]"}, "zeroline": True, "range": _padded(low, high)},
        yaxis={"type": "category", "showgrid": False, "range": [-0.6, len(shown) - 0.4]},
        shapes=[
            {
                "type": "rect",
                "layer": "below",
                "x0": -100 * material,
                "x1": 100 * material,
                "y0": 0,
                "y1": 1,
                "yref": "paper",
                "line": {"width": 0},
                "fillcolor": "rgba(134,141,150,0.22)",
            }
        ],
    )
    looks = [_OUTCOME[item.outcome] for item in shown]
    figure.add_trace(
        go.Scatter(
            x=small_floats(centre),
            y=names,
            mode="markers+text",
            marker={
                "size": 11,
                "symbol": [look.symbol for look in looks],
                "color": [look.colour for look in looks],
            },
            text=[f"{at:+.1f} % {item.verdict}" for at, item in zip(centre, shown, strict=True)],
            textposition="top center",
            error_x={
                "type": "data",
                "symmetric": False,
                "array": small_floats(high - centre),
                "arrayminus": small_floats(centre - low),
                "color": NEUTRAL.colour,
                "thickness": 1.6,
                "width": 5,
            },
            customdata=np.stack([low, high], axis=1).astype(np.float32),
            hovertemplate="%{y}: %{x:+.2f} % (%{customdata[0]:+.2f} to %{customdata[1]:+.2f} %)"
            "<extra></extra>",
        )
    )
    return figure


def runs_at_a_glance(comparison: Comparison, names: Sequence[str]) -> Any:
    """Step time and peak memory of every run: near the corner is fast and small."""
    shown = [
        (place, run)
        for place, run in enumerate(comparison.runs)
        if run.step_time_ns is not None and run.peak_memory_bytes is not None
    ]
    times = np.array([run.step_time_ns or 0 for _, run in shown], dtype=np.float64)
    sizes = np.array([run.peak_memory_bytes or 0 for _, run in shown])
    time, size = time_unit(times), size_unit(sizes)
    figure = new_figure(
        title="Time against memory",
        alternative="; ".join(
            f"{plain(names[place])} {format_duration(run.step_time_ns)}, "
            f"{format_bytes(run.peak_memory_bytes)}"
            for place, run in shown
        )
        + ".",
        hovermode="closest",
        xaxis={"title": {"text": f"peak memory [{size.name}]"}, "rangemode": "tozero"},
        yaxis={"title": {"text": f"step time [{time.name}]"}, "rangemode": "tozero"},
    )
    for (place, _), y, x in zip(shown, time.of(times), size.of(sizes), strict=True):
        look = run_look(place)
        figure.add_trace(
            go.Scatter(
                x=np.array([x]),
                y=np.array([y]),
                name=plain(names[place]),
                mode="markers",
                marker={"size": 15, "symbol": look.symbol, "color": look.colour},
                hovertemplate=f"%{{y:.4~g}} {time.name}, %{{x:.4~g}} {size.name}",
            )
        )
    return figure


def _padded(low: Any, high: Any) -> list[float]:
    """All intervals and zero, with room for the words above the outermost."""
    begin, end = min([0.0, *low.tolist()]), max([0.0, *high.tolist()])
    room = max(2.0, 0.22 * (end - begin))
    return [begin - room, end + room]


def measure_words(item: MeasureChange) -> str:
    """The name of a measure for people."""
    if item.name.startswith(METRIC):
        return plain(item.name.removeprefix(METRIC), longest=24)
    return f"{item.of}/s" if item.name == "throughput" and item.of else words(item.name)


def _signed(amount_ns: float) -> str:
    return f"{'+' if amount_ns > 0 else ''}{format_duration(amount_ns)}"
