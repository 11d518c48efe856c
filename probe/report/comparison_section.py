"""Runs side by side in a report: verdicts first, then figures and the tables of `probe compare`."""

from collections.abc import Iterator, Sequence

from probe.analyse.compare.comparison import Comparison, Pair
from probe.analyse.compare.next_looks import next_looks
from probe.figures import comparison as drawn
from probe.figures.chart import Chart
from probe.figures.matrix import CellValue, setup_matrix, spans_a_matrix
from probe.figures.overlay import OverlaidRun, Quantity, can_overlay, overlay
from probe.figures.side_by_side import memory_side_by_side, traffic_side_by_side
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
            paper.draw_all(_charts_of_all(comparison, runs)),
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


def _charts_of_all(comparison: Comparison, runs: Sequence[OverlaidRun]) -> Iterator[Chart]:
    if spans_a_matrix(comparison.runs):
        yield Chart(figure=setup_matrix(comparison.runs))
        if any(run.peak_memory_bytes for run in comparison.runs):
            yield Chart(figure=setup_matrix(comparison.runs, CellValue.PEAK_MEMORY))
    for quantity in Quantity:
        if can_overlay(runs, quantity):
            yield Chart(figure=overlay(runs, quantity))
    if any(run.step_time_ns and run.peak_memory_bytes for run in comparison.runs):
        yield Chart(figure=drawn.runs_at_a_glance(comparison, [run.label for run in runs]))


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
    charts = paper.draw_all(_charts_of_pair(comparison, pair))
    return element("section", heading, charts, *map(table_of, blocks))


def _charts_of_pair(comparison: Comparison, pair: Pair) -> Iterator[Chart]:
    if pair.waterfall is not None:
        yield Chart(
            figure=drawn.waterfall_of_phases(pair.waterfall, first=pair.first, second=pair.second),
            wide=True,
        )
    if any(item.change for item in pair.measures):
        yield Chart(figure=drawn.ratio_intervals(pair, material=comparison.material))
    if any(item.first_bytes or item.second_bytes for item in pair.memory):
        yield Chart(figure=memory_side_by_side(pair))
    if pair.traffic:
        yield Chart(figure=traffic_side_by_side(pair))
