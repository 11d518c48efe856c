"""What moves between device, host and disk: bytes over time, and how fast each route is."""

from typing import Any

import numpy as np
import plotly.graph_objects as go

from probe.analyse.offload import OffloadTraffic
from probe.analyse.series.offload_series import OffloadSeries
from probe.figures.exposed_hidden import add_exposed_and_hidden
from probe.figures.names import words
from probe.figures.palette import NEUTRAL, PHASES, TIERS, Look, line_of
from probe.figures.scales import room_for_labels, size_unit, small_steps, time_unit
from probe.figures.theme import new_figure
from probe.figures.thinning import points_caption, thin
from probe.schema.vocabulary import Direction, Phase
from probe.units import MISSING, format_bytes, format_duration, format_percent


def offload_over_time(series: OffloadSeries) -> Any:
    """Bytes that a rank moved in each step by route, and the time that compute waited for them."""
    bytes_unit = size_unit(*series.moved_bytes.values())
    unit = time_unit(series.exposed_ns)
    figure = new_figure(
        title="Offload traffic of a rank",
        alternative=f"{len(series.step):,} steps; mean a step: "
        + ", ".join(
            f"{words(direction)} {words(tier)} {format_bytes(round(float(moved.mean())))}"
            for (tier, direction), moved in series.moved_bytes.items()
        )
        + f"; exposed {format_duration(float(series.exposed_ns.mean()))}.",
        height=380,
        xaxis={"title": {"text": "step"}, "anchor": "y2"},
        yaxis={
            "title": {"text": f"moved [{bytes_unit.name}]"},
            "domain": [0.55, 1],
            "rangemode": "tozero",
        },
        yaxis2={
            "title": {"text": f"exposed [{unit.name}]"},
            "domain": [0, 0.45],
            "rangemode": "tozero",
        },
    )
    drawn = len(series.step)
    for (tier, direction), moved in series.moved_bytes.items():
        kept = thin(moved)
        drawn = min(drawn, len(kept))
        look = next((look for known, look in TIERS.items() if known == tier), NEUTRAL)
        dash = "solid" if direction == Direction.FETCH else "dot"
        figure.add_trace(
            go.Scatter(
                x=small_steps(series.step[kept]),
                y=bytes_unit.of(moved[kept]),
                name=f"{words(direction)} {'from' if dash == 'solid' else 'to'} {words(tier)}",
                mode="lines",
                line=line_of(Look(colour=look.colour, dash=dash)),
                hovertemplate=f"%{{y:.4~g}} {bytes_unit.name}",
            )
        )
    kept = thin(series.exposed_ns)
    figure.add_trace(
        go.Scatter(
            x=small_steps(series.step[kept]),
            y=unit.of(series.exposed_ns[kept]),
            name="exposed",
            mode="lines",
            yaxis="y2",
            line=line_of(PHASES[Phase.OFFLOAD_WAIT]),
            hovertemplate=f"%{{y:.4~g}} {unit.name}",
        )
    )
    drawn = min(drawn, len(kept))
    figure.layout.meta["caption"] = points_caption(drawn, len(series.step), "steps")
    return figure


def offload_routes(traffic: OffloadTraffic) -> Any:
    """Busy time of each route, exposed and hidden, with its bandwidth."""
    shown = list(traffic.routes)
    labels = [_label(route.category, route.direction, route.tier) for route in shown]
    exposed = np.array([route.exposed_ns for route in shown])
    hidden = np.maximum(0, np.array([route.busy_ns for route in shown]) - exposed)
    unit = time_unit(exposed + hidden)
    speed = [
        MISSING if route.bytes_per_s is None else f"{format_bytes(route.bytes_per_s)}/s"
        for route in shown
    ]
    figure = new_figure(
        title="Offload routes: exposed and hidden time",
        alternative="; ".join(
            f"{label} {format_bytes(round(route.moved_bytes))} a step at {rate}, "
            f"{format_duration(route.exposed_ns)} exposed"
            for label, route, rate in zip(labels, shown, speed, strict=True)
        )
        + ".",
        caption=f"{format_percent(traffic.hidden_share)} of the busy time is hidden under compute.",
        height=140 + 34 * max(2, len(shown)),
        xaxis={
            "title": {"text": f"busy a step [{unit.name}]"},
            "range": room_for_labels(unit.of(exposed + hidden)),
        },
        yaxis={"showgrid": False, "autorange": "reversed"},
    )
    add_exposed_and_hidden(
        figure,
        labels,
        exposed_ns=exposed,
        hidden_ns=hidden,
        unit=unit,
        exposed_look=PHASES[Phase.OFFLOAD_WAIT],
        behind=speed,
    )
    return figure


def _label(category: str, direction: str, tier: str) -> str:
    towards = "from" if direction == Direction.FETCH else "to"
    return f"{words(category)} {towards} {words(tier)}"
