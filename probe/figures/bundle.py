"""Figures as JSON, and the one script that draws them, for a file that needs no network."""

import json
from typing import Any

from plotly.offline import get_plotlyjs
from plotly.utils import PlotlyJSONEncoder

from probe.figures.theme import Mode, template


def figure_json(figure: Any) -> str:
    """Traces and layout without a template: arrays as base64, the ground is laid by the page."""
    plain = figure.to_dict()
    plain["layout"].pop("template", None)
    return json.dumps(plain, cls=PlotlyJSONEncoder)


def template_json() -> str:
    """The templates of both modes, by name."""
    return json.dumps({mode.value: template(mode).to_plotly_json() for mode in Mode})


def plotly_script() -> str:
    """plotly.js as the installed package brings it."""
    return str(get_plotlyjs())


def point_count(figure: Any) -> int:
    """Points of all traces: what a page counts against its budget."""
    return sum(_points(trace) for trace in figure.data)


def _points(trace: Any) -> int:
    z = getattr(trace, "z", None)
    if z is not None:
        return int(z.size)
    return max(len(values) for values in (trace.x, trace.y) if values is not None)
