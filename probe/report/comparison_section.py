"""Runs side by side in a report: verdicts first, then figures and the tables of `probe compare`."""

from collections.abc import Sequence
from itertools import chain

from probe.analyse.compare.comparison import Comparison, Pair
from probe.analyse.compare.next_looks import next_looks
from probe.figures.of_comparison import (
    held_and_sent_charts,
    matrix_charts,
    overlay_charts,
    time_charts,
)
from probe.figures.overlay import OverlaidRun
from probe.report.chart import ChartPaper
from probe.report.markup import Html, element, joined, table_of
from probe.text.comparison_blocks import (
    differences_block,
    measures_block,
    names_block,
    runs_block,
    sentences_block,
)
from probe.text.comparison_parts import (
    exchanges_block,
    losses_block,
    memory_block,
    operators_block,
    traffic_block,
    waterfall_block,
)
from probe.text.comparison_words import judgement_sentence, verdict_sentence


def comparison_section(
    comparison: Comparison, runs: Sequence[OverlaidRun], *, paper: ChartPaper
) -> Html:
    """All runs, then every later one against the first."""
    return joined(
        (
            *(_verdict(comparison, pair) for pair in comparison.pairs),
            table_of(runs_block(comparison)),
            _lines(names_block(comparison).below),
            paper.draw_all(chain(matrix_charts(comparison, runs), overlay_charts(runs))),
            *(_pair(comparison, pair, paper) for pair in comparison.pairs),
        )
    )


def _lines(texts: Sequence[str]) -> Html:
    """Texts below each other, indented as they are."""
    return element("div", *(element("div", text) for text in texts), class_="lines soft")


def _verdict(comparison: Comparison, pair: Pair) -> Html:
    return joined(
        (
            element("p", verdict_sentence(pair, material=comparison.material), class_="verdict"),
            element("p", judgement_sentence(pair)),
        )
    )


def _pair(comparison: Comparison, pair: Pair, paper: ChartPaper) -> Html:
    heading = element("h3", f"{pair.second} against {pair.first}")
    blocks = [
        measures_block(pair),
        differences_block(pair),
        waterfall_block(pair),
        memory_block(pair),
        traffic_block(pair),
        exchanges_block(pair),
        operators_block(pair),
        losses_block(comparison, pair),
        sentences_block("Keep in mind", pair.caveats),
        sentences_block("Look next", next_looks(pair)),
    ]
    charts = paper.draw_all(chain(time_charts(comparison, pair), held_and_sent_charts(pair)))
    return element("section", heading, charts, *map(table_of, blocks))
