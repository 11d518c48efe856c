"""Memory and traffic of one side beside those of the first."""

from typing import Any

import numpy as np
import plotly.graph_objects as go

from probe.analyse.compare.comparison import Pair
from probe.figures.names import plain, words
from probe.figures.palette import MEMORY, NEUTRAL, bar_fill, hollow_fill, operation_look
from probe.figures.scales import size_unit
from probe.figures.theme import new_figure
from probe.schema.vocabulary import MemoryCategory, Tier
from probe.units import format_bytes


def memory_side_by_side(pair: Pair) -> Any:
    """The ledger of the fullest rank of both sides, each beside its closed form."""
    tiers = [tier for tier in Tier if any(item.tier is tier for item in pair.memory)]
    bars = [
        (side, tier, what)
        for tier in tiers
        for side in (pair.first, pair.second)
        for what in ("measured", "closed form")
    ]
    labels = [
        f"{plain(side)}{'' if tier is Tier.DEVICE else f' {tier}'} {what}"
        for side, tier, what in bars
    ]
    sizes: dict[MemoryCategory, list[int]] = {}
    for category in MemoryCategory:
        row = [_held(pair, side, tier, what, category) for side, tier, what in bars]
        if any(row):
            sizes[category] = row
    totals = np.sum(list(sizes.values()), axis=0) if sizes else np.zeros(len(bars))
    unit = size_unit(totals)
    figure = new_figure(
        title="Memory of the fullest rank at its peak",
        alternative="; ".join(
            f"{label} {format_bytes(int(total))}"
            for label, total in zip(labels, totals, strict=True)
        )
        + ".",
        caption="Closed forms know model states, and activations where the shape is recorded.",
        height=140 + 30 * len(bars),
        barmode="stack",
        bargap=0.3,
        hovermode="closest",
        xaxis={"title": {"text": f"memory [{unit.name}]"}},
        yaxis={"autorange": "reversed", "type": "category", "showgrid": False},
    )
    for category, row in sizes.items():
        figure.add_trace(
            go.Bar(
                y=labels,
                x=unit.of(np.array(row)),
                orientation="h",
                name=words(category),
                marker=bar_fill(MEMORY[category]),
                hovertemplate=f"{words(category)} %{{x:.4~g}} {unit.name}<extra></extra>",
            )
        )
    return figure


def traffic_side_by_side(pair: Pair) -> Any:
    """Bytes on the wire of a step by operation, in both sides."""
    shown = list(pair.traffic)
    sent = np.array([[item.first_wire_bytes, item.second_wire_bytes] for item in shown])
    unit = size_unit(sent)
    labels = [words(item.op) + _as(item.op, item.wire_op) for item in shown]
    figure = new_figure(
        title="Bytes that a rank sends in a step",
        alternative="; ".join(
            f"{label} {format_bytes(round(one))} and {format_bytes(round(other))}"
            for label, (one, other) in zip(labels, sent.tolist(), strict=True)
        )
        + ".",
        height=140 + 44 * max(2, len(shown)),
        barmode="group",
        bargap=0.3,
        hovermode="closest",
        xaxis={"title": {"text": f"sent [{unit.name}]"}, "rangemode": "tozero"},
        yaxis={"autorange": "reversed", "type": "category", "showgrid": False},
    )
    for place, side in enumerate((pair.first, pair.second)):
        colours = [operation_look(item.op).colour for item in shown]
        fill = bar_fill(NEUTRAL) if place else hollow_fill(NEUTRAL)
        if place:
            fill["color"] = colours
        else:
            fill["pattern"]["fgcolor"] = colours
            fill["line"]["color"] = colours
        figure.add_trace(
            go.Bar(
                y=labels,
                x=unit.of(sent[:, place]),
                orientation="h",
                name=f"{plain(side)} ({'filled' if place else 'hatched'})",
                marker=fill,
                hovertemplate=f"{plain(side)} %{{x:.4~g}} {unit.name}<extra></extra>",
            )
        )
    return figure


def _held(pair: Pair, side: str, tier: Tier, what: str, category: MemoryCategory) -> int:
    for item in pair.memory:
        if item.tier is tier and item.category is category:
            if side == pair.first:
                chosen = item.first_bytes if what == "measured" else item.first_theory_bytes
            else:
                chosen = item.second_bytes if what == "measured" else item.second_theory_bytes
            return chosen or 0
    return 0


def _as(op: str, wire_op: str) -> str:
    return "" if op == wire_op else f" (as {words(wire_op)})"
