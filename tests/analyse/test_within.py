"""Cutting a run's series to some of its steps."""

import numpy as np
import pytest

from probe.analyse.series.overflow_events import MOST_EVENTS, overflow_events
from probe.analyse.series.within import StepRange, within
from probe.schema.rows import OverflowRow
from probe.schema.tables import OVERFLOW
from probe.schema.vocabulary import NonFinite, TensorRole
from tests.analyse.hand_built import table_of
from tests.figures.drawn_run import DrawnRun, drawn_run


@pytest.fixture(scope="module")
def run() -> DrawnRun:
    return drawn_run(steps=200)


def test_every_series_holds_the_chosen_steps_only(run: DrawnRun) -> None:
    cut = within(run.series, StepRange(first=80, last=95))
    for series in (cut.steps, cut.training, cut.waits, cut.offload, *cut.memory.values()):
        assert series is not None
        assert series.step.min() == 80
        assert series.step.max() == 95
    assert cut.waits is not None
    assert cut.waits.waited_ns.shape == (4, 16)
    assert {event.step for event in cut.overflows.events} == {90, 91}
    assert within(run.series, None) is run.series


def test_a_range_behind_more_overflows_than_a_table_shows_still_has_its_own() -> None:
    rows = [
        OverflowRow(step=step, role=TensorRole.GRADIENT, kind=NonFinite.INF, parameter="w")
        for step in range(MOST_EVENTS + 50)
    ]
    found = overflow_events(table_of(OVERFLOW, {0: rows}))
    assert (len(found.events), found.total) == (MOST_EVENTS, MOST_EVENTS + 50)
    late = found.between(MOST_EVENTS + 10, MOST_EVENTS + 19)
    assert [event.step for event in late.events] == list(range(MOST_EVENTS + 10, MOST_EVENTS + 20))
    assert late.total == 10


def test_events_are_in_order_with_the_first_offender_first() -> None:
    rows = [
        OverflowRow(step=step, role=TensorRole.GRADIENT, kind=NonFinite.NAN, first=first)
        for step, first in ((3, False), (1, False), (1, True))
    ]
    events = overflow_events(table_of(OVERFLOW, {0: rows, 1: rows[:1]})).events
    assert [(event.step, event.rank, event.first) for event in events] == [
        (1, 0, True),
        (1, 0, False),
        (3, 0, False),
        (3, 1, False),
    ]


def test_gradients_of_some_steps(run: DrawnRun) -> None:
    gradients = run.facts.gradients
    assert gradients is not None
    cut = gradients.between(40, 69)
    assert list(cut.by_step) == [40, 50, 60]
    assert cut.by_parameter == gradients.by_parameter
    assert np.isfinite([fit.underflow_share for fit in cut.by_step.values()]).all()
