"""Which rank the others wait for: every rank and step as a heatmap, and the ranks in order."""

from typing import Any

import numpy as np
import plotly.graph_objects as go

from probe.analyse.communication.waiting import Waiting
from probe.analyse.series.rank_waits import RankWaits
from probe.analyse.steps.balance import RankBalance
from probe.figures.names import words
from probe.figures.palette import HEAT, PHASES, bar_fill, hollow_fill
from probe.figures.scales import heat_axis, small_steps, time_unit
from probe.figures.theme import new_figure
from probe.schema.vocabulary import Phase
from probe.units import format_duration

MOST_COLUMNS = 600
"""Columns of a heatmap: more than these are narrower than a pixel."""
MOST_ROWS = 128
MOST_RANKED = 32


def wait_heatmap(waits: RankWaits) -> Any:
    """Ranks down, steps across; of many steps the longest wait of each bucket."""
    matrix, steps, width = _coarser(waits)
    rows = np.arange(len(waits.ranks))
    if len(rows) > MOST_ROWS:
        rows = np.unique(np.linspace(0, len(rows) - 1, MOST_ROWS).round().astype(np.int64))
    unit = time_unit(matrix)
    mean = np.nanmean(waits.waited_ns, axis=1)
    least = int(waits.ranks[int(np.nanargmin(mean))])
    said = []
    if width > 1:
        said.append(f"Each column is the longest wait in {width:,} steps.")
    if len(rows) < len(waits.ranks):
        said.append(f"{len(rows):,} of {len(waits.ranks):,} ranks.")
    figure = new_figure(
        title="Waiting for other ranks",
        alternative=f"{len(waits.ranks)} ranks by {len(waits.step):,} steps. Rank {least} waits "
        f"least, {format_duration(float(mean.min()))} a step: the others wait for it. The longest "
        f"mean wait is {format_duration(float(mean.max()))}.",
        caption=" ".join(said),
        height=min(620, 150 + 14 * max(6, len(rows))),
        hovermode="closest",
        xaxis={"title": {"text": "step"}, "showgrid": False, "type": heat_axis(steps)},
        yaxis={
            "title": {"text": "rank"},
            "showgrid": False,
            "autorange": "reversed",
            "type": "category",
        },
    )
    figure.add_trace(
        go.Heatmap(
            x=small_steps(steps),
            y=waits.ranks[rows].astype(np.int32),
            z=unit.of(matrix[rows]),
            colorscale=HEAT,
            zmin=0,
            zmax=float(np.nanmax(unit.of(matrix))),
            colorbar={"title": {"text": f"wait [{unit.name}]", "side": "right"}, "thickness": 12},
            hovertemplate=f"rank %{{y}}, step %{{x}}: %{{z:.4~g}} {unit.name}<extra></extra>",
        )
    )
    return figure


def rank_ranking(balance: RankBalance, waiting: Waiting | None) -> Any:
    """Ranks by the time in which they wait for nobody: the longest is the one to look at."""
    order = sorted(balance.own_ns, key=lambda rank: -balance.own_ns[rank])
    shown = order[:MOST_RANKED]
    data = np.array([balance.data_ns.get(rank, 0.0) for rank in shown])
    compute = np.array([balance.own_ns[rank] for rank in shown]) - data
    busy = np.array([balance.busy_ns.get(rank, 0.0) for rank in shown])
    unit = time_unit(np.maximum(data + compute, busy))
    slow = balance.straggler
    verdict = (
        "no rank stands out"
        if slow is None
        else f"rank {slow.rank} holds the others up by {format_duration(slow.excess_ns)} a step "
        f"({words(slow.cause)})"
    )
    last = "" if waiting is None else f"; rank {waiting.least_waiting_rank} waits least for others"
    labels = [f"rank {rank}{' ◄' if slow and rank == slow.rank else ''}" for rank in shown]
    figure = new_figure(
        title="Ranks by their own time",
        alternative=f"{len(order)} ranks: {verdict}{last}.",
        caption=f"{verdict[0].upper()}{verdict[1:]}{last}."
        + (
            f" The {len(shown)} longest of {len(order):,} ranks." if len(shown) < len(order) else ""
        ),
        height=140 + 30 * max(3, len(shown)),
        barmode="group",
        bargap=0.25,
        hovermode="closest",
        xaxis={"title": {"text": f"median of a step [{unit.name}]"}},
        yaxis={"autorange": "reversed", "showgrid": False, "type": "category"},
    )
    # Collectives run beside computation, so their time stands beside it and is not added.
    for name, values, base, row, fill in (
        ("waiting for data", data, 0 * data, "own", bar_fill(PHASES[Phase.DATA])),
        ("forward and backward", compute, data, "own", bar_fill(PHASES[Phase.FORWARD])),
        ("in collectives", busy, 0 * busy, "busy", hollow_fill(PHASES[Phase.REDUCE_WAIT])),
    ):
        if values.any():
            figure.add_trace(
                go.Bar(
                    y=labels,
                    x=unit.of(values),
                    base=unit.of(base),
                    offsetgroup=row,
                    orientation="h",
                    name=name,
                    marker=fill,
                    hovertemplate=f"{name} %{{x:.4~g}} {unit.name}<extra></extra>",
                )
            )
    return figure


def _coarser(waits: RankWaits) -> tuple[Any, Any, int]:
    """The longest wait of every few steps, the first step of each, and how many they are."""
    steps = len(waits.step)
    width = -(-steps // MOST_COLUMNS)
    if width == 1:
        return waits.waited_ns, waits.step, 1
    starts = np.arange(0, steps, width)
    return np.fmax.reduceat(waits.waited_ns, starts, axis=1), waits.step[starts], width
