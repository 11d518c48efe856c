"""The gate as JUnit XML: what CI systems read, whatever runs and conditions are called."""

from pathlib import Path
from xml.etree import ElementTree

import pytest

from probe.analyse.compare.comparison import compare_runs
from probe.analyse.compare.conditions import parse_conditions
from probe.analyse.compare.gate import judge
from probe.schema.documents import ModelFacts
from probe.text.gate_junit import gate_junit
from tests.analyse.compared import made_run

# The shape that Jenkins, GitLab and the `junit-10.xsd` of xunit agree on.
ATTRIBUTES = {
    "testsuites": {"name", "tests", "failures", "errors", "skipped", "time"},
    "testsuite": {"name", "tests", "failures", "errors", "skipped", "time"},
    "testcase": {"classname", "name", "time"},
    "failure": {"message", "type"},
    "error": {"message", "type"},
    "skipped": {"message"},
    "system-out": set(),
}
CHILDREN = {
    "testsuites": {"testsuite"},
    "testsuite": {"testcase"},
    "testcase": {"failure", "error", "skipped", "system-out"},
}


def junit(*runs, fail_if="", strict=False) -> ElementTree.Element:
    comparison = compare_runs([[run] for run in runs])
    report = judge(comparison, parse_conditions(fail_if) if fail_if else (), strict=strict)
    root = ElementTree.fromstring(gate_junit(comparison, report, strict=strict))
    for element in root.iter():
        assert set(element.attrib) == ATTRIBUTES[element.tag]
        assert {child.tag for child in element} <= CHILDREN.get(element.tag, set())
    for holder in (root, *root):
        cases = list(holder.iter("testcase"))
        assert int(holder.get("tests")) == len(cases)
        for tag, name in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
            assert int(holder.get(name)) == sum(case.find(tag) is not None for case in cases)
    return root


def ends(root: ElementTree.Element) -> dict[str, str]:
    return {
        f"{case.get('classname').rpartition('.')[2]} {case.get('name')}": next(
            (child.tag for child in case if child.tag != "system-out"), "passed"
        )
        for case in root.iter("testcase")
    }


BASE, SLOW = made_run("base"), made_run("slow", backward_ms=60, seed=1)
GATE = "step_time>+5%,skipped>0,metric.accuracy<0.5,metric.absent>0"


def test_every_condition_is_a_case() -> None:
    root = junit(BASE, SLOW, BASE, fail_if=GATE)
    assert [suite.get("name") for suite in root] == ["slow against base", "base against base"]
    assert ends(root) == {
        "A-B comparable": "passed",
        "A-B not step_time>+5%": "failure",
        "A-B not skipped>0": "passed",
        "A-B not metric.accuracy<0.5": "passed",
        "A-B not metric.absent>0": "skipped",
        "A-C comparable": "passed",
        "A-C not step_time>+5%": "passed",
        "A-C not skipped>0": "passed",
        "A-C not metric.accuracy<0.5": "passed",
        "A-C not metric.absent>0": "skipped",
    }
    (failure,) = root.iter("failure")
    assert failure.get("message").startswith("step_time>+5%: failed, found +9.")
    assert "B is slower than A" in root.find("testsuite/testcase/system-out").text


def test_strict_makes_a_failure_of_what_is_inconclusive() -> None:
    assert ends(junit(BASE, BASE, fail_if="metric.absent>0", strict=True)) == {
        "A-B comparable": "passed",
        "A-B not metric.absent>0": "failure",
    }
    short = made_run("short", steps=12, noise=0.5)
    assert ends(junit(BASE, short, strict=True)) == {"A-B comparable": "failure"}
    assert ends(junit(BASE, short)) == {"A-B comparable": "passed"}


def test_runs_that_cannot_be_compared_are_an_error() -> None:
    other = made_run("other", facts={"model": ModelFacts(name="gpt", param_elements=5)})
    assert ends(junit(BASE, other)) == {"A-B comparable": "error"}


def test_hostile_names_stay_text() -> None:
    name = "]]><evil a='\"&amp;\x00\x1b[2J\ud800\ufffe\u202e\n"
    root = junit(made_run(name), made_run("<b>"), fail_if="step_time>+5%")
    (suite,) = root
    shown = suite.get("name")
    assert shown.startswith("<b> against ]]><evil a='\"&amp;\\x00\\x1b[2J\\ud800")
    assert "\n" not in shown.strip("\n") or "\\n" in shown


def test_the_verb_writes_it_beside_its_answer(probe, make_run, tmp_path: Path) -> None:
    for name in ("one", "two"):
        make_run(name)
    answer = probe(
        "compare", "one", "two", "--junit", tmp_path / "gate.xml", "--fail-if", "skipped>0"
    )
    assert (answer.code, answer.err) == (0, "")
    assert "Gate" in answer.out
    assert ends(ElementTree.parse(tmp_path / "gate.xml").getroot())["A-B not skipped>0"] == "passed"
    answer = probe("compare", "one", "two", "--junit", tmp_path / "absent" / "gate.xml")
    assert answer.code == 2
    assert "cannot be written" in answer.err


@pytest.fixture(autouse=True)
def _no_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
