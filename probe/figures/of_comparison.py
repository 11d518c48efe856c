"""Which charts tell of a comparison: those whose facts the runs recorded."""

from collections.abc import Iterator, Sequence

from probe.analyse.compare.comparison import Comparison, Pair
from probe.figures import comparison as drawn
from probe.figures.chart import Chart
from probe.figures.matrix import CellValue, setup_matrix, spans_a_matrix
from probe.figures.overlay import Along, OverlaidRun, Quantity, can_overlay, overlay
from probe.figures.side_by_side import memory_side_by_side, traffic_side_by_side


def matrix_charts(comparison: Comparison, runs: Sequence[OverlaidRun]) -> Iterator[Chart]:
    """All runs at once: the matrix of their settings if they span one, speed against memory."""
    if spans_a_matrix(comparison.runs):
        yield Chart(figure=setup_matrix(comparison.runs))
        if any(run.peak_memory_bytes for run in comparison.runs):
            yield Chart(figure=setup_matrix(comparison.runs, CellValue.PEAK_MEMORY))
    if any(run.step_time_ns and run.peak_memory_bytes for run in comparison.runs):
        yield Chart(figure=drawn.runs_at_a_glance(comparison, [run.label for run in runs]))


def overlay_charts(
    runs: Sequence[OverlaidRun], *, along: Along = Along.STEP, smoothing: float = 0.0
) -> Iterator[Chart]:
    """The same quantity of all runs in one chart."""
    for quantity in Quantity:
        if can_overlay(runs, quantity):
            yield Chart(figure=overlay(runs, quantity, along=along, smoothing=smoothing))


def time_charts(comparison: Comparison, pair: Pair) -> Iterator[Chart]:
    """Where the difference of a step's time lies, and how sure all differences are."""
    if pair.waterfall is not None:
        yield Chart(
            figure=drawn.waterfall_of_phases(pair.waterfall, first=pair.first, second=pair.second),
            wide=True,
        )
    if any(item.change for item in pair.measures):
        yield Chart(figure=drawn.ratio_intervals(pair, material=comparison.material), wide=True)


def held_and_sent_charts(pair: Pair) -> Iterator[Chart]:
    """Memory by category and traffic by operation."""
    if any(item.first_bytes or item.second_bytes for item in pair.memory):
        yield Chart(figure=memory_side_by_side(pair))
    if pair.traffic:
        yield Chart(figure=traffic_side_by_side(pair))
