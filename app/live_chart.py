"""A chart that is updated in place: zoom, legend and hover stay while the run goes on.

Streamlit's own chart is built anew whenever its figure changes, and its zoom is lost. Here a small
component hands each new figure to `Plotly.react`. plotly.js comes from the installed package: a
component of its own carries it into the page once, outside of what is drawn again.
"""

from html import unescape
from typing import Any

import streamlit as st

from probe.figures.bundle import figure_json, plotly_script, template_json
from probe.figures.theme import Mode, alternative_of

_LIBRARY = "zeroprobe_plotly"
_CHART = "zeroprobe_live_chart"
_CHART_SCRIPT = """
export default function (component) {
  const { parentElement, data } = component
  let place = parentElement.querySelector(".live-chart")
  if (!place) {
    place = document.createElement("div")
    place.className = "live-chart"
    place.setAttribute("role", "img")
    parentElement.appendChild(place)
  }
  place.setAttribute("aria-label", data.words)
  place.style.height = data.height + "px"
  place.wanted = data
  const draw = () => {
    if (!window.Plotly) {
      setTimeout(draw, 50)
      return
    }
    const wanted = place.wanted
    if (place.drawn === wanted.version) return
    place.drawn = wanted.version
    const figure = JSON.parse(wanted.figure)
    const layout = figure.layout
    layout.template = JSON.parse(wanted.templates)[wanted.mode]
    layout.uirevision = wanted.name
    const config = { displaylogo: false, responsive: true }
    window.Plotly.react(place, figure.data, layout, config)
  }
  draw()
}
"""


def bring_library() -> None:
    """Put plotly.js into the page; before the charts, and not where something is drawn again."""
    _library()(key=_LIBRARY)


def draw_live(figure: Any, *, name: str, version: str, mode: Mode) -> None:
    """The figure; it is handed over, and not built anew, when the version changes."""
    _chart()(
        key=f"live-{name}",
        data={
            "figure": figure_json(figure),
            "templates": template_json(),
            "mode": mode.value,
            "name": name,
            "version": f"{version}-{mode.value}",
            "words": unescape(alternative_of(figure)),
            "height": int(figure.layout.height),
        },
        height=int(figure.layout.height),
    )


@st.cache_resource
def _library() -> Any:
    script = f"if (!window.Plotly) {{\n{plotly_script()}\n}}\nexport default function () {{}}\n"
    return st.components.v2.component(_LIBRARY, js=script)


@st.cache_resource
def _chart() -> Any:
    return st.components.v2.component(_CHART, js=_CHART_SCRIPT, isolate_styles=False)
