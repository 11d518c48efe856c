"""Every registered page, of every kind of run: a page or a card, never an exception."""

from html import unescape

import pytest
from opened_page import faults, open_page
from shown_runs import NASTY, Kind

from app.catalogue import PAGES, RunPage
from tests.figures.drawn_run import PARAMETERS, record_drawn_run

RUN_PAGES = [page.name for page in PAGES if isinstance(page, RunPage)]
ALL_PAGES = [page.name for page in PAGES]


@pytest.mark.parametrize("page", ALL_PAGES)
@pytest.mark.parametrize("kind", list(Kind))
def test_a_page_shows_what_can_be_shown(monkeypatch, every_kind, page, kind) -> None:
    app = open_page(monkeypatch, every_kind, page, run=kind.value, runs=[Kind.GOOD.value])
    assert not faults(app)
    if page in RUN_PAGES and kind is not Kind.FOREIGN:
        assert any(kind.value in unescape(head.value).replace("\\", "") for head in app.header)
    if page in RUN_PAGES and kind is Kind.FOREIGN:
        assert any("9.0" in item.value for item in app.text)


@pytest.mark.parametrize("page", ALL_PAGES)
def test_without_runs_a_page_says_how_to_record_one(monkeypatch, tmp_path, page) -> None:
    app = open_page(monkeypatch, tmp_path, page)
    assert not faults(app)
    assert app.info


@pytest.mark.parametrize("page", ALL_PAGES)
def test_a_folder_that_is_not_there_is_empty(monkeypatch, tmp_path, page) -> None:
    assert not faults(open_page(monkeypatch, tmp_path / "nowhere", page))


@pytest.mark.parametrize("page", RUN_PAGES)
def test_a_range_of_steps_is_drawn_and_one_without_steps_is_told(
    monkeypatch, every_kind, page
) -> None:
    app = open_page(monkeypatch, every_kind, page, run=Kind.GOOD.value, range="10-19")
    assert not faults(app)
    nowhere = open_page(monkeypatch, every_kind, page, run=Kind.GOOD.value, range="5000-6000")
    assert not faults(nowhere)
    assert any("5,000" in item.value for item in nowhere.warning)


@pytest.mark.parametrize("page", ALL_PAGES)
def test_names_are_text(monkeypatch, tmp_path, page) -> None:
    """What comes from a run, its name above all, never stands in Markdown as it is."""
    name = NASTY.replace("/", "|").replace("http:||", "http:")
    record_drawn_run(tmp_path, name, ranks=2, steps=30, names=(NASTY, *PARAMETERS[1:]), notes=NASTY)
    app = open_page(monkeypatch, tmp_path, page, run=name)
    assert not faults(app)
    for markdown in (*app.markdown, *app.caption, *app.header, *app.subheader):
        for sign in ("<b>", "<script>", "$x^2$", ":smile:", "](http", "`code`"):
            assert sign not in markdown.value, NASTY


@pytest.mark.parametrize("page", RUN_PAGES)
def test_charts_have_words_and_stay_small(monkeypatch, every_kind, page) -> None:
    app = open_page(monkeypatch, every_kind, page, run=Kind.GOOD.value)
    drawn = app.get("plotly_chart")
    assert len(drawn) <= 10
    for chart in drawn:
        assert chart.proto.alt
    assert sum(len(chart.proto.spec) for chart in drawn) < 1_200_000
