"""The dashboard in a real Chromium: every page, the way from a run to its evidence, links, live."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from served import Watched
from shown_runs import Kind

from app.catalogue import PAGES, RunPage
from benchmarks.dashboard_server import served
from probe.analyse.findings.finding import View
from probe.record.rank import RankWriter
from probe.record.run import RunWriter
from probe.schema.documents import Header
from probe.schema.rows import StepRow
from tests.figures.drawn_run import PARAMETERS, made_rows, manifest_of, record_drawn_run

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]
SCREENSHOTS = "PROBE_SCREENSHOTS"
LOOKS = [("light", 1440), ("dark", 1440), ("light", 390)]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("served") / "runs"
    for name, slower in (("base", 1.0), ("slow", 1.2)):
        record_drawn_run(folder, name, steps=120, slower=slower)
    return folder


@pytest.fixture(scope="module")
def address(runs: Path, recorded_kinds: Path) -> Iterator[str]:
    with served(runs, recorded_kinds) as address:
        yield address


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = Path(os.environ.get(SCREENSHOTS) or tmp_path_factory.mktemp("pictures"))
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.fixture
def watched(browser, address) -> Iterator[Watched]:
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    watched = Watched(context, address)
    yield watched
    context.close()
    assert not watched.complaints()


@pytest.mark.parametrize(("mode", "width"), LOOKS, ids=lambda value: str(value))
def test_every_page_is_drawn_without_a_complaint(browser, address, pictures, mode, width) -> None:
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=mode)
    watched = Watched(context, address)
    for page in PAGES:
        watched.open(f"{page.name}?run=slow&runs=base")
        assert not watched.page.get_by_test_id("stException").count()
        inside = watched.page.evaluate("document.querySelector('[data-testid=stMain]').scrollWidth")
        assert inside <= width, page.name
        # As high as its content, so that all of it is looked at.
        height = watched.page.evaluate(
            "document.querySelector('[data-testid=stMainBlockContainer]').scrollHeight"
        )
        watched.page.set_viewport_size({"width": width, "height": min(6000, max(900, height))})
        watched.settle()
        watched.page.wait_for_timeout(500)
        watched.page.screenshot(path=pictures / f"{page.name}-{mode}-{width}.png")
        watched.page.set_viewport_size({"width": width, "height": 900})
    context.close()
    assert not watched.complaints()


def test_a_link_restores_what_is_looked_at(watched) -> None:
    watched.open("overview?run=slow&runs=base&range=20-60&smoothing=0.5&axis=time")
    page = watched.page
    assert page.get_by_role("heading", name="Overview · slow").is_visible()
    assert page.get_by_role("textbox", name="Steps").input_value() == "20-60"
    first, last = page.evaluate(
        "document.querySelectorAll('.js-plotly-plot')[1]._fullLayout.xaxis.range"
    )
    assert first > 10
    assert last < 70
    query = page.evaluate("location.search")
    for part in ("run=slow", "runs=base", "range=20-60", "smoothing=0.5", "axis=time"):
        assert part in query


def test_the_choice_outlives_a_change_of_page_and_back_undoes_it(watched) -> None:
    watched.open("overview?run=slow&range=20-60")
    page = watched.page
    page.get_by_test_id("stSidebarNavLink").filter(has_text="Live").click()
    page.get_by_role("heading", name="Live · slow").wait_for()
    page.wait_for_function("() => location.search.includes('range=20-60')")
    page.get_by_test_id("stSidebarNavLink").filter(has_text="Overview").click()
    page.get_by_role("heading", name="Overview · slow").wait_for()
    watched.settle()


def test_from_the_list_to_a_run_to_the_evidence_to_the_comparison(watched) -> None:
    page = watched.page
    evidence = {
        view: item.title for item in PAGES if isinstance(item, RunPage) for view in item.shows
    }
    watched.open("runs")
    box = page.get_by_test_id("stDataFrame").first.bounding_box()
    assert box is not None
    # The boxes of two rows; rows are a canvas, and whichever is chosen already is left out.
    before = page.evaluate("location.search")
    page.mouse.click(box["x"] + 15, box["y"] + 52 + 2 * 33)
    page.wait_for_function("before => location.search !== before", arg=before)
    watched.settle()
    run = page.evaluate("new URLSearchParams(location.search).get('run')")
    assert page.get_by_role("combobox", name="Run").input_value() == run
    page.get_by_test_id("stMain").get_by_role("link", name="Overview").click()
    page.get_by_role("heading", name=f"Overview · {run}").wait_for()
    watched.open("overview?run=slow&runs=base")
    if View.COMMUNICATION in evidence:
        page.get_by_role("link", name="Evidence: communication").first.click()
        title = evidence[View.COMMUNICATION]
        page.get_by_role("heading", name=f"{title} · slow").wait_for()
        watched.settle()
    if any(item.name == "compare" for item in PAGES):
        page.get_by_test_id("stSidebarNavLink").filter(has_text="Compare").click()
        page.wait_for_function("() => location.pathname.endsWith('compare')")
        watched.settle()
        assert page.get_by_text("base").first.is_visible()


def test_the_zoom_of_a_live_chart_stays_while_the_run_goes_on(browser, tmp_path) -> None:
    path = RunWriter.create(tmp_path, manifest_of(ranks=1, expected_steps=400)).path
    writer = RankWriter(path, Header(rank=0, host=socket.gethostname(), pid=os.getpid()))
    rows = [
        row
        for row in made_rows(ranks=1, steps=200, slower=1.0, names=PARAMETERS)[0]
        if isinstance(row, StepRow)
    ]

    def go_on(some: list[StepRow]) -> None:
        for row in some:
            writer.write(row)
            writer.beat(step=row.step)

    go_on(rows[:60])
    with served(tmp_path) as address:
        context = browser.new_context(viewport={"width": 1440, "height": 900})
        watched = Watched(context, address)
        page = watched.page
        watched.open("live")
        page.wait_for_selector(".live-chart .main-svg", state="attached")
        drawn = "document.querySelector('.live-chart')"
        page.evaluate(f"window.first = {drawn}")
        page.evaluate(f"Plotly.relayout({drawn}, {{'xaxis.range': [10, 30]}})")
        page.evaluate(f"Plotly.restyle({drawn}, {{visible: 'legendonly'}}, [0])")
        before = page.evaluate(f"{drawn}.drawn")
        go_on(rows[60:120])
        page.wait_for_function(f"before => {drawn}.drawn !== before", arg=before)
        page.get_by_test_id("stMetricValue").filter(has_text="119").wait_for()
        assert page.evaluate(f"window.first === {drawn}")
        assert page.evaluate(f"{drawn}.layout.xaxis.range") == [10, 30]
        # WHEN it pauses, what the run writes is not drawn; WHEN it goes on, it is
        page.get_by_text("Pause", exact=True).click()
        page.get_by_text("Paused:").wait_for()
        writer.close()
        page.get_by_text("Pause", exact=True).click()
        page.get_by_text("The run is over").wait_for()
        context.close()
        assert not watched.complaints()


def test_a_broken_run_is_a_page_like_any_other(watched) -> None:
    for kind in (Kind.CORRUPT, Kind.CRASHED, Kind.FOREIGN):
        watched.open(f"overview?run={kind.value}")
        assert not watched.page.get_by_test_id("stException").count()
