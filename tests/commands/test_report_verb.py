"""`probe report`: one file that asks nobody for anything, whatever a run is called."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from probe.report.chart import json_script
from tests.figures.drawn_run import record_drawn_run

NASTY = "</title><script>alert(1)</script><img src=http://evil.example/x onerror=alert(2)>"
QUOTED = 'x" onmouseover="alert(3)'
NAMES = (NASTY, "</script><b>", "a%{x}$b$", "plain.weight", QUOTED)
"""The last one underflows most and is named in the words of charts."""
_ADDRESSED = {"src", "href", "srcset", "data", "action", "formaction", "poster", "xlink:href"}


class Page(HTMLParser):
    """Elements, what they point at, and the text outside scripts."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.addresses: list[str] = []
        self.ids: set[str] = set()
        self.policy = ""
        self.text = ""
        self.charts: list[dict[str, str | None]] = []
        self._within: list[str] = []
        self.data: list[str] = []
        self.scripts = 0
        self.feed(html)

    def handle_starttag(self, tag, attrs) -> None:
        told = dict(attrs)
        self.tags.append(tag)
        self._within.append(tag)
        self.addresses += [value or "" for name, value in attrs if name in _ADDRESSED]
        self.ids |= {told["id"] or ""} if "id" in told else set()
        assert not [name for name in told if name.startswith("on")], f"{tag} has a handler"
        if told.get("http-equiv") == "Content-Security-Policy":
            self.policy = told["content"] or ""
        if told.get("class") == "chart":
            self.charts.append(told)
        if tag == "script":
            self.scripts += told.get("type") != "application/json"

    def handle_endtag(self, tag) -> None:
        while self._within and self._within.pop() != tag:
            pass

    def handle_data(self, data) -> None:
        inside = self._within[-1] if self._within else ""
        if inside == "script":
            self.data.append(data)
        elif inside != "style":
            self.text += data


@pytest.fixture
def report_of(probe, tmp_path: Path):
    def make(*runs: str) -> tuple[Page, str]:
        answer = probe("report", *runs, "-o", "r.html", "--force")
        assert answer.code == 0, answer.err
        return Page((tmp_path / "r.html").read_text(encoding="utf-8")), answer.out

    return make


def test_one_run_in_one_file(report_of, tmp_path: Path) -> None:
    record_drawn_run(tmp_path / "runs", "demo", steps=60)
    page, out = report_of("demo")
    assert re.fullmatch(
        r"r\.html: 20 charts, [\d,]+ points, \d\.\d\d MB, needs no network\.\n", out
    )
    assert len(page.charts) == 20
    assert "Rank 2 holds the others up (slow compute)." in page.text
    for heading in ("Time", "Precision", "Memory", "Communication", "Offload"):
        assert heading in page.text
    # Every number that `probe show` tells of phases stands here too.
    assert re.search(r"gather_wait\s*[\d.]+ ms\s*[\d.]+ %", page.text)
    assert (tmp_path / "r.html").stat().st_size < 6_500_000


def test_nothing_is_requested(report_of, tmp_path: Path) -> None:
    record_drawn_run(tmp_path / "runs", "demo", steps=30)
    page, _ = report_of("demo")
    assert page.addresses
    assert all(address.startswith("#") for address in page.addresses)
    assert {address[1:] for address in page.addresses} <= page.ids
    assert not {"link", "img", "iframe", "object", "embed", "base", "form"} & set(page.tags)
    assert page.policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "http" not in page.policy
    assert page.scripts == 2
    style = re.search(r"<style>(.*?)</style>", (tmp_path / "r.html").read_text(), re.DOTALL)
    assert style
    assert "url(" not in style[1]
    assert "@import" not in style[1]


def test_names_are_text_and_never_markup(report_of, tmp_path: Path) -> None:
    record_drawn_run(tmp_path / "runs", "demo", steps=40, names=NAMES, notes=NASTY, tags=[NASTY])
    page, _ = report_of("demo")
    assert page.scripts == 2
    assert "img" not in page.tags
    assert "b" not in page.tags
    assert NASTY in page.text
    told = [json.loads(text) for text in page.data if text.lstrip().startswith("{")]
    assert len(told) == len(page.charts) + 1
    for figure in told:
        assert "<script" not in json.dumps(figure)
    assert any(QUOTED in (chart["aria-label"] or "") for chart in page.charts)
    assert any("plain.weight" in json.dumps(figure) for figure in told)


def test_data_cannot_end_their_script() -> None:
    page = Page(json_script("data", json.dumps({"name": NASTY, "line": "\u2028"})))
    assert page.tags == ["script"]
    assert json.loads(page.data[0]) == {"name": NASTY, "line": "\u2028"}


def test_charts_have_words_and_headings(report_of, tmp_path: Path) -> None:
    record_drawn_run(tmp_path / "runs", "demo", steps=30)
    page, _ = report_of("demo")
    for chart in page.charts:
        assert chart["role"] == "img"
        assert len(chart["aria-label"] or "") > 20
        assert chart["data-figure"] in page.ids


def test_two_runs_are_compared(report_of, tmp_path: Path) -> None:
    for name, slower in (("base", 1.0), ("slow", 1.2)):
        record_drawn_run(tmp_path / "runs", name, steps=60, slower=slower)
    page, _ = report_of("base", "slow")
    assert "B is slower than A: step time" in page.text
    assert "Where the difference of a step comes from: B against A" in page.text
    assert page.tags.count("details") > 2
    assert {"comparison", "run-0", "run-1"} <= page.ids


def test_a_run_that_tells_little_has_a_report(report_of, make_run) -> None:
    make_run("demo", steps=1, ranks=1)
    page, _ = report_of("demo")
    assert page.charts
    make_run("empty", steps=0, ranks=1)
    page, _ = report_of("empty")
    assert "No step counts: nothing to judge." in page.text
    page, _ = report_of("empty", "demo")
    assert "Comparison" in page.text


def test_what_cannot_be_done_is_said(probe, make_run, tmp_path: Path) -> None:
    make_run("demo")
    (tmp_path / "r.html").write_text("mine")
    answer = probe("report", "demo", "-o", "r.html")
    assert answer.code == 2
    assert "r.html exists; write elsewhere, or replace it with --force." in answer.err
    assert (tmp_path / "r.html").read_text() == "mine"
    assert probe("report", "demo", "-o", "r.html", "--force").code == 0
    assert not list(tmp_path.glob("*.part"))
    answer = probe("report", "demo", "-o", "none/r.html")
    assert answer.code == 2
    assert "none/r.html cannot be written" in answer.err
    answer = probe("report", *["demo"] * 9)
    assert answer.code == 2
    assert "up to 8 runs, and 9 were named" in answer.err


def test_a_profiled_window_comes_with_its_verdict_and_critical_path(report_of) -> None:
    sample = Path(__file__).parents[2] / "sample_runs" / "bf16-stage3"
    page, _ = report_of(str(sample))
    assert "bound by communication: computation stands still for communication" in page.text
    assert "critical path: computation" in page.text
    assert "Critical path, rank 0" in page.text


def test_a_run_without_a_window_has_no_critical_path(report_of, make_run) -> None:
    make_run("plain")
    page, _ = report_of("plain")
    assert "ritical path" not in page.text
