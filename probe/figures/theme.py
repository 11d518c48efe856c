"""Light and dark: the template under every figure, and what a figure carries beside its traces.

A figure is built without colours of its ground, so that one figure serves both modes; `in_mode`
lays it on a template. Its title, its caption (what is drawn, and how many of how many points) and
a text that says in words what it shows are in `layout.meta`, for pages that put them beside it.
"""

from enum import StrEnum
from typing import Any

import plotly.graph_objects as go

FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif'
HEIGHT = 320
"""Pixels of a figure of one panel."""


class Mode(StrEnum):
    """The ground that a figure lies on."""

    LIGHT = "light"
    DARK = "dark"


GROUND = {Mode.LIGHT: "#ffffff", Mode.DARK: "#15181d"}
INK = {Mode.LIGHT: "#24292f", Mode.DARK: "#d8dde3"}
_FAINT = {Mode.LIGHT: "#e4e7eb", Mode.DARK: "#2b3038"}
_AXIS = {Mode.LIGHT: "#8c939c", Mode.DARK: "#6a727c"}
_RAISED = {Mode.LIGHT: "#ffffff", Mode.DARK: "#20252c"}


def template(mode: Mode) -> Any:
    """The template of a mode."""
    axis = {
        "gridcolor": _FAINT[mode],
        "linecolor": _AXIS[mode],
        "zerolinecolor": _FAINT[mode],
        "tickcolor": _AXIS[mode],
        "ticks": "outside",
        "ticklen": 4,
        "showline": True,
        "automargin": True,
        "title": {"standoff": 8},
        "ticklabelstandoff": 4,
    }
    return go.layout.Template(
        layout={
            "font": {"family": FONT, "size": 12, "color": INK[mode]},
            "paper_bgcolor": GROUND[mode],
            "plot_bgcolor": GROUND[mode],
            "xaxis": axis,
            "yaxis": {**axis, "showline": False, "ticks": ""},
            "hoverlabel": {
                "bgcolor": _RAISED[mode],
                "bordercolor": _AXIS[mode],
                "font": {"family": FONT, "size": 12, "color": INK[mode]},
                "align": "left",
                "namelength": -1,
            },
            "legend": {"bgcolor": "rgba(0,0,0,0)"},
            "modebar": {
                "bgcolor": "rgba(0,0,0,0)",
                "color": _AXIS[mode],
                "activecolor": INK[mode],
            },
        }
    )


def new_figure(
    *, title: str, alternative: str, caption: str = "", height: int = HEIGHT, **layout: Any
) -> Any:
    """An empty figure in the common form; texts are ours, names in them made plain before."""
    return go.Figure(
        layout={
            "title": {
                "text": title,
                "x": 0,
                "xref": "container",  # From the very left: a narrow chart has no room to give away.
                "xanchor": "left",
                "font": {"size": 15},
                "automargin": True,
                "yref": "container",
                "y": 1,
                "yanchor": "top",
                "pad": {"t": 8, "b": 8, "l": 8},
            },
            "meta": {"title": title, "alternative": alternative, "caption": caption},
            "height": height,
            "margin": {"l": 8, "r": 12, "t": 12, "b": 8},
            "legend": {
                "orientation": "h",
                "x": 0,
                "xanchor": "left",
                "y": 0,
                "yref": "container",
                "yanchor": "bottom",
                "itemsizing": "constant",
                "traceorder": "normal",
            },
            "hovermode": "x unified",
            "template": template(Mode.LIGHT),
            **layout,
        }
    )


def in_mode(figure: Any, mode: Mode) -> Any:
    """The same figure on another ground; the one that was given stays as it is."""
    laid = go.Figure(figure)
    laid.layout.template = template(mode)
    return laid


def title_of(figure: Any) -> str:
    """The title, as plain text."""
    return str(figure.layout.meta["title"])


def caption_of(figure: Any) -> str:
    """What stands below the figure; may be empty."""
    return str(figure.layout.meta["caption"])


def alternative_of(figure: Any) -> str:
    """What the figure shows, in words, for those who do not see it."""
    return str(figure.layout.meta["alternative"])
