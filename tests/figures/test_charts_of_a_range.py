"""Charts of a few steps of a run whose tables do not all tell of these steps."""

import pyarrow.compute as pc
import pytest

from probe.analyse.precision.numerics import LostUpdates
from probe.analyse.run_facts import run_facts
from probe.analyse.series.run_series import run_series
from probe.analyse.series.within import StepRange, within
from probe.figures.numerics import lost_updates_by_parameter
from probe.figures.of_run import (
    communication_charts,
    ledger_charts,
    offload_charts,
    peak_charts,
    precision_charts,
    step_charts,
)
from probe.figures.theme import caption_of
from probe.schema.tables import MEMORY, NUMERICS, OFFLOAD, OVERFLOW
from tests.figures.drawn_run import DrawnRun, drawn_run

EARLY = StepRange(first=0, last=30)
LATE = StepRange(first=150, last=199)


@pytest.fixture(scope="module")
def gappy() -> DrawnRun:
    """Only steps are told throughout; memory, numerics and offload end early.

    The memory of rank 1, the fullest, is told of a few steps only.
    """
    made = drawn_run(ranks=2, steps=200)
    tables = dict(made.tables)
    for table in (MEMORY, NUMERICS, OFFLOAD, OVERFLOW):
        rows = tables[table]
        tables[table] = rows.filter(pc.less(rows["step"], 100))
    memory = tables[MEMORY]
    tables[MEMORY] = memory.filter(pc.or_(pc.equal(memory["rank"], 0), pc.less(memory["step"], 9)))
    facts = run_facts(made.manifest, tables)
    return DrawnRun(
        manifest=made.manifest,
        tables=tables,
        facts=facts,
        series=run_series(tables, facts.counted),
    )


@pytest.mark.parametrize("rank", [None, 0, 1])
@pytest.mark.parametrize(
    "steps", [EARLY, LATE, StepRange(first=7, last=7), StepRange(first=99, last=100)]
)
def test_what_is_not_told_of_these_steps_is_left_out(gappy, steps, rank) -> None:
    cut = within(gappy.series, steps)
    charts = [
        *step_charts(gappy.facts, cut),
        *precision_charts(gappy.facts, cut, steps=steps),
        *ledger_charts(gappy.facts, cut, rank=rank),
        *communication_charts(gappy.facts, cut),
        *offload_charts(gappy.facts, cut),
    ]
    titles = [chart.figure.layout.title.text for chart in charts]
    assert ("Offload traffic of a rank" in titles) == (steps.first < 100)
    assert any(title.startswith("Memory of rank") for title in titles) == (
        steps.first < (100 if rank == 0 else 9)
    )


def test_peaks_are_those_of_the_whole_run(gappy) -> None:
    titles = [chart.figure.layout.title.text for chart in peak_charts(gappy.facts, gappy.series)]
    assert len(titles) == 2


def test_fits_of_gradients_are_those_of_the_steps_looked_at(gappy) -> None:
    def sampled(steps: StepRange) -> list[list[int]]:
        charts = precision_charts(gappy.facts, within(gappy.series, steps), steps=steps)
        return [
            list(chart.figure.data[0].x)
            for chart in charts
            if "headroom" in chart.figure.layout.title.text
        ]

    assert sampled(EARLY) == [[0, 10, 20, 30]]
    assert sampled(LATE) == []


def test_parameters_that_lost_nothing_have_no_bar() -> None:
    lost = LostUpdates(elements=3, share=0.1, by_parameter={"w": 0.3, "b": 0.0, "c": 0.0})
    figure = lost_updates_by_parameter(lost)
    assert list(figure.data[0].y) == ["w"]
    assert caption_of(figure) == "1 of 3 parameters lost updates."
