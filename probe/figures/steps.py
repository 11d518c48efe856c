"""Where the time of steps went: phases stacked per step, and what does not count."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from probe.analyse.series.step_series import Standing, StepSeries
from probe.analyse.steps.phases import PhaseTime
from probe.figures.names import words
from probe.figures.palette import BAD, NEUTRAL, PHASES, PLAIN, Look, bar_fill, ink_on, pattern
from probe.figures.scales import small_steps, time_unit
from probe.figures.theme import new_figure
from probe.figures.thinning import points_caption, thin, thin_marks
from probe.schema.vocabulary import Phase
from probe.units import format_duration, format_exact, format_percent

MOST_STACKED = 1000
"""Points of each phase: nine of them share a chart."""
MOST_BARS = 60
"""Up to so many steps are drawn as bars of their own."""
_STANDING = {
    Standing.WARM_UP: Look(colour=NEUTRAL.colour, symbol="circle-open"),
    Standing.PROFILED: Look(colour="#9a6fc4", symbol="diamond-open"),
    Standing.SKIPPED: BAD,
    Standing.INCOMPLETE: Look(colour=NEUTRAL.colour, symbol="line-ns-open"),
}


def phases_by_step(series: StepSeries) -> Any:
    """Every recorded step as the sum of its phases."""
    unusual = ~series.standing[Standing.COUNTED]
    kept = thin(series.wall_ns, keep=unusual, limit=MOST_STACKED)
    unit = time_unit(series.wall_ns)
    steps = small_steps(series.step[kept])
    shown = [phase for phase in Phase if series.phase_ns[phase].any()]
    total = max(1, int(series.wall_ns.sum()))
    shares = ", ".join(
        f"{words(phase)} {format_percent(int(series.phase_ns[phase].sum()) / total)}"
        for phase in shown
    )
    figure = new_figure(
        title="Phases of each step",
        alternative=f"Wall time of {format_exact(len(series))} steps by phase: {shares}.",
        caption=points_caption(len(kept), len(series), "steps"),
        barmode="stack",
        bargap=0.12,
        xaxis={"title": {"text": "step"}},
        yaxis={
            "title": {"text": f"step time [{unit.name}]"},
            "rangemode": "tozero",
        },
    )
    for phase in shown:
        look = PHASES[phase]
        y = unit.of(series.phase_ns[phase][kept])
        hover = f"%{{y:.4~g}} {unit.name}"
        if len(series) <= MOST_BARS:
            figure.add_trace(
                go.Bar(
                    x=steps,
                    y=y,
                    name=words(phase),
                    hovertemplate=hover,
                    marker=bar_fill(look),
                )
            )
        else:
            figure.add_trace(
                go.Scatter(
                    x=steps,
                    y=y,
                    name=words(phase),
                    hovertemplate=hover,
                    mode="lines",
                    stackgroup="phases",
                    line={"width": 0.5, "color": look.colour},
                    fillcolor=look.colour,
                    fillpattern=pattern(look),
                )
            )
    return figure


def step_times(series: StepSeries) -> Any:
    """Wall times in order, the steps that do not count marked with the reason."""
    counted = series.standing[Standing.COUNTED]
    kept = thin(series.wall_ns, keep=~counted)
    unit = time_unit(series.wall_ns)
    median = float(np.median(series.wall_ns[counted])) if counted.any() else None
    left_out = {item: int(series.standing[item].sum()) for item in _STANDING}
    said = [f"{format_exact(count)} {words(item)}" for item, count in left_out.items() if count]
    middle = "" if median is None else f", median {format_duration(median)}"
    figure = new_figure(
        title="Step time",
        alternative=f"Wall time of {format_exact(len(series))} steps{middle}; "
        f"left out: {', '.join(said) or 'none'}.",
        caption=points_caption(len(kept), len(series), "steps"),
        xaxis={"title": {"text": "step"}},
        yaxis={
            "title": {"text": f"step time [{unit.name}]"},
            "rangemode": "tozero",
        },
    )
    figure.add_trace(
        go.Scatter(
            x=small_steps(series.step[kept]),
            y=unit.of(series.wall_ns[kept]),
            name="step",
            mode="lines+markers" if len(series) <= MOST_BARS else "lines",
            marker={"size": 4},
            line={"width": 1.2, "color": PLAIN.colour},
            customdata=small_steps(series.critical_rank[kept]),
            hovertemplate=f"%{{y:.4~g}} {unit.name}, slowest rank %{{customdata}}",
        )
    )
    if median is not None:
        ends = small_steps(series.step[[0, -1]])
        figure.add_trace(
            go.Scatter(
                x=ends,
                y=unit.of(np.full(2, median)),
                name="median of the steps that count",
                mode="lines",
                line={"width": 1.2, "dash": "dash", "color": NEUTRAL.colour},
                hoverinfo="skip",
            )
        )
    for item, look in _STANDING.items():
        places = np.flatnonzero(series.standing[item])
        if not len(places):
            continue
        marks, counts = thin_marks(places, len(series))
        figure.add_trace(
            go.Scatter(
                x=small_steps(series.step[marks]),
                y=unit.of(series.wall_ns[marks]),
                name=words(item),
                mode="markers",
                customdata=small_steps(counts),
                marker={
                    "symbol": look.symbol,
                    "size": 8,
                    "color": look.colour,
                    "line": {"width": 1.5, "color": look.colour},
                },
                hovertemplate=f"{words(item)} (%{{customdata}})",
            )
        )
    return figure


def phase_shares(phases: Sequence[PhaseTime]) -> Any:
    """One bar of all counted time; its parts sum to the whole."""
    shown = [item for item in phases if item.total_ns]
    total = sum(item.share for item in phases)
    other = next((item.share for item in phases if item.phase is Phase.OTHER), 0.0)
    figure = new_figure(
        title="Where the time went",
        alternative="Shares of the counted time: "
        + ", ".join(f"{words(item.phase)} {format_percent(item.share)}" for item in shown)
        + ".",
        caption=f"Parts sum to {format_percent(total)}, other {format_percent(other)}.",
        height=230,
        barmode="stack",
        hovermode="closest",
        xaxis={
            "title": {"text": "share of the counted time [%]"},
            "range": [0, 100],
        },
        yaxis={"visible": False},
    )
    for item in shown:
        look = PHASES[item.phase]
        wide = item.share > 0.06
        figure.add_trace(
            go.Bar(
                x=np.array([item.share * 100], dtype=np.float32),
                y=[""],
                orientation="h",
                name=words(item.phase),
                marker=bar_fill(look),
                text=[format_percent(item.share) if wide else ""],
                textposition="inside",
                insidetextanchor="middle",
                textangle=0,
                textfont={"color": ink_on(look.colour)},
                hovertemplate=f"{words(item.phase)}: {format_percent(item.share)}"
                f", median {format_duration(item.median_ns)}<extra></extra>",
            )
        )
    return figure
