"""A profiled window: where its time went, and all ranks as lanes on one time axis."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from probe.analyse.trace.breakdown import Breakdown
from probe.analyse.trace.lanes import LaneKind, TraceLane, TraceLanes
from probe.figures.names import words
from probe.figures.palette import NEUTRAL, PHASES, WINDOW, Look, bar_fill
from probe.figures.scales import small_floats, time_unit
from probe.figures.theme import new_figure
from probe.units import format_duration, format_percent

MOST_RANKS = 8
"""More ranks have too many pieces for one chart, and too thin lanes."""
_KINDS = {
    LaneKind.COMPUTATION: WINDOW["computation"],
    LaneKind.COMMUNICATION: WINDOW["communication"],
    LaneKind.MEMCPY: WINDOW["memcpy"],
}
_PARTS = (
    ("computation", "computation_ns", WINDOW["computation"]),
    ("exposed communication", "exposed_comm_ns", WINDOW["communication"]),
    ("exposed memcpy", "exposed_memcpy_ns", WINDOW["memcpy"]),
    ("idle", "idle_ns", WINDOW["idle"]),
)


def window_breakdown(breakdowns: Sequence[tuple[str, Breakdown]]) -> Any:
    """One bar for each rank or step, named by the caller; the parts sum to its wall time."""
    labels = [words(name) for name, _ in breakdowns]
    unit = time_unit(np.array([item.wall_ns for _, item in breakdowns]))
    wall = max(1, sum(item.wall_ns for _, item in breakdowns))
    figure = new_figure(
        title="Breakdown of the profiled window",
        alternative="Of the wall time: "
        + ", ".join(
            f"{name} {format_percent(sum(getattr(item, part) for _, item in breakdowns) / wall)}"
            for name, part, _ in _PARTS
        )
        + ".",
        caption="The four parts sum to the wall time.",
        height=140 + 30 * max(2, len(breakdowns)),
        barmode="stack",
        bargap=0.3,
        hovermode="closest",
        xaxis={"title": {"text": f"time [{unit.name}]"}},
        yaxis={"showgrid": False, "autorange": "reversed", "type": "category"},
    )
    for name, part, look in _PARTS:
        values = np.array([getattr(item, part) for _, item in breakdowns], dtype=np.float64)
        if values.any():
            figure.add_trace(
                go.Bar(
                    y=labels,
                    x=unit.of(values),
                    orientation="h",
                    name=name,
                    marker=bar_fill(look),
                    hovertemplate=f"{name} %{{x:.4~g}} {unit.name}<extra></extra>",
                )
            )
    return figure


def lanes_of_ranks(windows: Sequence[TraceLanes]) -> Any:
    """For each rank its phases and what computed, communicated and copied, from its own begin."""
    shown = windows[:MOST_RANKS]
    longest = max((item.end_ns - item.begin_ns for item in shown), default=0)
    unit = time_unit(np.array([longest]))
    rows = list(dict.fromkeys(_row(item, lane) for item in shown for lane in item.lanes))
    few = "" if len(shown) == len(windows) else f" The first {len(shown)} of {len(windows)} ranks."
    figure = new_figure(
        title="Timeline of the profiled window",
        alternative=f"{len(shown)} ranks over {format_duration(longest)}: "
        + "; ".join(_busy(item) for item in shown)
        + ".",
        height=190 + 24 * max(4, len(rows)),
        barmode="overlay",
        bargap=0.25,
        hovermode="closest",
        xaxis={
            "title": {"text": f"time in the window [{unit.name}]"},
            "range": [0, longest / unit.size if longest else 1],
        },
        yaxis={
            "showgrid": False,
            "type": "category",
            "categoryorder": "array",
            "categoryarray": rows[::-1],
        },
    )
    legend: set[str] = set()
    for item in shown:
        for lane in item.lanes:
            name, look = _what(lane)
            fill = bar_fill(look)
            fill["opacity"] = small_floats(0.2 + 0.8 * lane.busy_share)
            figure.add_trace(
                go.Bar(
                    base=unit.bases(lane.begins_ns - item.begin_ns),
                    x=unit.of(lane.ends_ns - lane.begins_ns),
                    y=[_row(item, lane)] * len(lane.begins_ns),
                    orientation="h",
                    name=name,
                    legendgroup=name,
                    showlegend=name not in legend,
                    marker=fill,
                    customdata=small_floats(100 * lane.busy_share),
                    hovertemplate=f"rank {item.rank}, {name}: from %{{base:.5~g}} {unit.name} for "
                    f"%{{x:.4~g}} {unit.name}, busy up to %{{customdata}} %<extra></extra>",
                )
            )
            legend.add(name)
        for begin_ns in item.step_begins_ns if len(shown) == 1 else ():
            figure.add_vline(
                x=float((begin_ns - item.begin_ns) / unit.size),
                line={"width": 1, "dash": "dot", "color": NEUTRAL.colour},
            )
    slot_ns = max((item.slot_ns for item in shown), default=0)
    figure.layout.meta["caption"] = (
        f"Slots of {format_duration(slot_ns)}: the paler, the less of it was busy. Each rank "
        f"begins with its own first step.{few}"
    )
    return figure


def _row(item: TraceLanes, lane: TraceLane) -> str:
    return f"rank {item.rank} {words(lane.kind)}"


def _what(lane: TraceLane) -> tuple[str, Look]:
    if lane.phase is not None:
        return words(lane.phase), PHASES[lane.phase]
    return words(lane.kind), _KINDS[lane.kind]


def _busy(item: TraceLanes) -> str:
    wall = max(1, item.end_ns - item.begin_ns)
    parts = [
        f"{words(lane.kind)} {format_percent(lane.busy_ns / wall)}"
        for lane in item.lanes
        if lane.kind is not LaneKind.PHASES
    ]
    return f"rank {item.rank} {', '.join(parts)}"
