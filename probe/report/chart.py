"""A figure in the page: a heading, the place it is drawn into, its caption and its words."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from html import escape, unescape

from probe.figures.bundle import figure_json, point_count
from probe.figures.chart import Chart
from probe.figures.theme import alternative_of, caption_of, title_of
from probe.report.markup import Html, element, joined


@dataclass(kw_only=True)
class ChartPaper:
    """Gives every chart of a page its own place, and keeps count."""

    charts: int = 0
    points: int = 0
    json_bytes: int = 0
    _data: list[Html] = field(default_factory=list)

    def draw(self, chart: Chart) -> Html:
        """The chart as a `figure`; its data are handed out by `data`."""
        figure = chart.figure
        self.charts += 1
        name = f"figure-{self.charts}"
        text = _inert(figure_json(figure))
        self.points += point_count(figure)
        self.json_bytes += len(text)
        self._data.append(json_script(name, text))
        # Names in these texts are written for Plotly, with entities; the page escapes on its own.
        words, caption = unescape(alternative_of(figure)), unescape(caption_of(figure))
        height = int(figure.layout.height)
        place = Html(
            f'<div class="chart" role="img" aria-label="{escape(words)}" '
            f'data-figure="{name}" style="height:{height}px"></div>'
        )
        in_words = element("details", element("summary", "In words"), words)
        below = element("figcaption", caption, in_words)
        heading = element("h4", unescape(title_of(figure)))
        return element("figure", heading, place, below, class_="wide" if chart.wide else "")

    def draw_all(self, charts: Iterator[Chart]) -> Html:
        """Charts side by side where there is room."""
        drawn = [self.draw(chart) for chart in charts]
        return element("div", joined(drawn), class_="charts") if drawn else Html()

    def data(self) -> Html:
        """The data of all charts."""
        return joined(self._data)


def json_script(name: str, text: str) -> Html:
    """JSON in the page; nothing in it can end the script."""
    return Html(f'<script type="application/json" id="{name}">{_inert(text)}</script>')


def _inert(text: str) -> str:
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
