"""The report in a real Chromium: draws every chart, asks for nothing, follows light and dark."""

import time
from pathlib import Path

import pytest

from probe.__main__ import main
from probe.figures.theme import GROUND, Mode
from tests.figures.drawn_run import record_drawn_run

pytestmark = pytest.mark.browser
DEADLINE_S = 60
NASTY = "</title><script>window.hurt = 1</script><img src=x onerror='window.hurt = 2'>"


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    names = ("tokens.weight", NASTY, "<b>bold</b>", "head.weight")
    for name, slower in (("base", 1.0), ("slow", 1.2)):
        record_drawn_run(folder / "runs", name, steps=60, slower=slower, names=names, notes=NASTY)
    path = folder / "report.html"
    runs = ["--runs-dir", str(folder / "runs")]
    assert main(["report", "base", "slow", *runs, "-o", str(path)]) == 0
    return path


def wait_until(page, expression: str) -> None:
    """Ask until it holds: the page's policy forbids the polling that Playwright would do."""
    deadline = time.monotonic() + DEADLINE_S
    while not page.evaluate(expression):
        assert time.monotonic() < deadline, f"never came true: {expression}"
        page.wait_for_timeout(50)


@pytest.mark.parametrize(
    ("mode", "width"), [(Mode.LIGHT, 1440), (Mode.DARK, 1440), (Mode.LIGHT, 390)]
)
def test_every_chart_is_drawn_and_nothing_is_asked_for(browser, report, mode, width) -> None:
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=mode.value)
    page = context.new_page()
    said: list[str] = []
    asked: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(report.as_uri())
    page.evaluate("document.getElementById('run-0').open = true")
    charts = page.locator("#comparison .chart, #run-0 .chart")
    for place in range(charts.count()):
        charts.nth(place).scroll_into_view_if_needed()
        charts.nth(place).locator(".main-svg").first.wait_for(state="attached")
    assert not said
    assert [url for url in asked if not url.startswith(("file:", "data:", "blob:"))] == []
    assert page.evaluate("window.hurt") is None
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    ground = page.evaluate("getComputedStyle(document.querySelector('.main-svg')).background")
    red, green, blue = (int(GROUND[mode][at : at + 2], 16) for at in (1, 3, 5))
    assert f"rgb({red}, {green}, {blue})" in ground
    assert NASTY in page.inner_text("body")
    context.close()


def test_a_change_of_mode_repaints_and_zoom_stays(browser, report) -> None:
    context = browser.new_context(color_scheme="light")
    page = context.new_page()
    page.goto(report.as_uri())
    page.wait_for_selector(".chart .main-svg", state="attached")
    page.evaluate("Plotly.relayout(document.querySelector('.chart'), {'xaxis.range': [5, 9]})")
    page.emulate_media(color_scheme="dark")
    wait_until(
        page,
        "document.querySelector('.chart').layout.template.layout.paper_bgcolor === '"
        + GROUND[Mode.DARK]
        + "'",
    )
    assert page.evaluate("document.querySelector('.chart').layout.xaxis.range") == [5, 9]
    context.close()


def test_a_link_into_a_folded_run_opens_it(browser, report) -> None:
    context = browser.new_context()
    page = context.new_page()
    page.goto(report.as_uri() + "#run-1-communication")
    wait_until(page, "document.getElementById('run-1').open")
    assert page.locator("#run-1-communication").is_visible()
    assert not page.locator("#run-0-communication").is_visible()
    context.close()


def test_printing_draws_all(browser, report) -> None:
    context = browser.new_context()
    page = context.new_page()
    page.goto(report.as_uri())
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    wait_until(
        page,
        "document.querySelectorAll('.chart').length === "
        "document.querySelectorAll('.chart.js-plotly-plot').length",
    )
    context.close()


def test_a_printed_chart_fits_its_page(browser, report) -> None:
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    page = context.new_page()
    page.goto(report.as_uri())
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    rightmost = (
        "Math.max(...[...document.querySelectorAll('.chart .main-svg')]"
        ".map((svg) => svg.getBoundingClientRect().right))"
    )
    wait_until(page, f"{rightmost} > 1000")
    page.emulate_media(media="print")
    wait_until(page, f"{rightmost} <= 700")
    page.emulate_media(media="screen")
    wait_until(page, f"{rightmost} > 1000")
    context.close()
