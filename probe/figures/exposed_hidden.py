"""The pair of bars that a busy time is cut into: in sight of compute, and hidden under it."""

from collections.abc import Sequence
from typing import Any

import plotly.graph_objects as go

from probe.figures.palette import NEUTRAL, Look, bar_fill, hollow_fill
from probe.figures.scales import Numbers, Unit


def add_exposed_and_hidden(
    figure: Any,
    labels: Sequence[str],
    *,
    exposed_ns: Numbers,
    hidden_ns: Numbers,
    unit: Unit,
    exposed_look: Look,
    behind: Sequence[str] = (),
) -> None:
    """Stack both for every label; `behind` holds a text for the end of each bar."""
    figure.update_layout(barmode="stack", bargap=0.3, hovermode="closest")
    figure.add_trace(
        go.Bar(
            y=labels,
            x=unit.of(exposed_ns),
            orientation="h",
            name="exposed: compute stood still",
            marker=bar_fill(exposed_look),
            hovertemplate=f"exposed %{{x:.4~g}} {unit.name}<extra></extra>",
        )
    )
    texts: dict[str, Any] = {}
    if behind:
        texts = {
            "text": list(behind),
            "textposition": "outside",
            "textangle": 0,
            "cliponaxis": False,
        }
    said = ", %{text}" if behind else ""
    figure.add_trace(
        go.Bar(
            y=labels,
            x=unit.of(hidden_ns),
            orientation="h",
            name="hidden under compute",
            marker=hollow_fill(NEUTRAL),
            hovertemplate=f"hidden %{{x:.4~g}} {unit.name}{said}<extra></extra>",
            **texts,
        )
    )
