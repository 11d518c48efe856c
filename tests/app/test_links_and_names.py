"""What a link restores, what a stranger's link cannot do, and notes that are written and undone."""

import json

import pytest
from opened_page import faults, figures, open_page
from shown_runs import NASTY, Kind

from probe.remark import remarks_of, undo_remark, write_remark
from probe.schema.documents import Remark
from probe.schema.layout import REMARKS
from tests.building import make_run


def test_a_link_restores_every_choice(monkeypatch, every_kind) -> None:
    chosen = {"range": "10-19", "smoothing": "0.5", "axis": "time"}
    app = open_page(
        monkeypatch, every_kind, "overview", run="good", runs=["nan", "one_rank"], **chosen
    )
    assert app.sidebar.selectbox(key="run").value == "good"
    assert app.sidebar.multiselect(key="runs").value == ["nan", "one_rank"]
    assert app.sidebar.text_input(key="range").value == "10-19"
    assert app.sidebar.slider(key="smoothing").value == 0.5
    assert app.sidebar.selectbox(key="axis").value == "time"
    phases = figures(app)[1]["data"][0]
    assert phases["name"] == "data"
    assert len(app.query_params["runs"]) == 2


@pytest.mark.parametrize(
    "wrong",
    [
        {"run": "../../../etc"},
        {"run": NASTY},
        {"runs": ["good", "nowhere"]},
        {"range": "ten"},
        {"range": "9" * 40},
        {"smoothing": "nan"},
        {"smoothing": "much"},
        {"axis": "sideways"},
    ],
)
def test_a_wrong_link_opens_what_there_is(monkeypatch, every_kind, wrong) -> None:
    app = open_page(monkeypatch, every_kind, "overview", **wrong)
    assert not faults(app)
    assert app.header
    assert 0 <= app.sidebar.slider(key="smoothing").value <= 0.99
    if "axis" not in wrong and "smoothing" not in wrong:
        assert app.warning


def test_a_choice_is_written_into_the_address(monkeypatch, every_kind) -> None:
    app = open_page(monkeypatch, every_kind, "overview", run=Kind.GOOD.value)
    app.sidebar.text_input(key="range").set_value("5-9").run()
    assert app.query_params["range"] == "5-9"
    app.sidebar.selectbox(key="run").set_value("nan").run()
    assert app.query_params["run"] == "nan"
    assert not faults(app)


def test_the_search_finds_words_anywhere(monkeypatch, every_kind) -> None:
    app = open_page(monkeypatch, every_kind, "runs")
    assert len(app.dataframe[0].value) == len(Kind)
    app.text_input(key="search").set_value("stage2 64_no").run()
    assert not len(app.dataframe[0].value)
    app.text_input(key="search").set_value("fp16 MANY").run()
    assert app.dataframe[0].value["run"].tolist() == ["many_ranks"]


def test_numbers_of_the_list_are_those_of_the_run(monkeypatch, every_kind) -> None:
    frame = open_page(monkeypatch, every_kind, "runs").dataframe[0].value.set_index("run")
    assert frame.loc["good", "steps"] == 40
    assert frame.loc["nan", "skips"] == 40
    assert frame.loc["live", "status"] == "running"
    assert frame.loc["crashed", "status"] == "killed"
    assert frame.loc["good", "tags"] == NASTY


def test_notes_are_saved_beside_the_run_and_undone(monkeypatch, tmp_path) -> None:
    path = make_run(tmp_path, steps=2, tags=["first"], notes="as recorded")
    manifest = (path / "manifest.json").read_bytes()
    app = open_page(monkeypatch, tmp_path, "runs")
    app.text_input[1].set_value("first, second")
    app.text_area[0].set_value("**bold** of mine")
    app.button[0].click().run()
    assert not faults(app)
    assert app.dataframe[0].value["tags"].tolist() == ["first, second"]
    assert json.loads((path / REMARKS).read_text())["now"]["notes"] == "**bold** of mine"
    app.button[1].click().run()
    assert app.dataframe[0].value["tags"].tolist() == ["first"]
    assert (path / "manifest.json").read_bytes() == manifest


def test_remarks_go_back_as_far_as_they_came(tmp_path) -> None:
    path = make_run(tmp_path, steps=1)
    for number in range(3):
        write_remark(path, Remark(tags=[str(number)], notes=""))
    seen = []
    while (held := remarks_of(path)).before:
        seen.append(held.now and held.now.tags)
        undo_remark(path)
    assert seen == [["2"], ["1"], ["0"]]
    assert remarks_of(path).now is None
    undo_remark(path)
    (path / REMARKS).write_bytes(b"\xff{")
    assert remarks_of(path).now is None


def test_the_table_of_a_stranger_s_remarks_is_bounded(tmp_path) -> None:
    path = make_run(tmp_path, steps=1)
    write_remark(path, Remark(tags=[f"{n}" * 100 for n in range(100)], notes="n" * 20_000))
    held = remarks_of(path).now
    assert held is not None
    assert len(held.tags) <= 32
    assert len(held.notes) <= 10_000
