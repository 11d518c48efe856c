"""The gate of a comparison as JUnit XML, the form in which CI systems show what failed.

A test case a condition and pair, and first of each pair whether it may be judged at all: a failed
condition is a failure, an inconclusive one is skipped, or with `--strict` a failure too, and runs
that cannot be compared are an error.
"""

from collections.abc import Iterator
from xml.etree import ElementTree

from probe.analyse.compare.comparability import Judgement
from probe.analyse.compare.comparison import Comparison, Pair
from probe.analyse.compare.gate import Exit, GateReport, Outcome, Result
from probe.text.comparison_blocks import format_found
from probe.text.comparison_words import judgement_sentence, verdict_sentence
from probe.text.printable import printable

SUITE = "probe compare"
COMPARABLE = "comparable"
_COUNTED = {"failure": "failures", "error": "errors", "skipped": "skipped"}


def gate_junit(comparison: Comparison, report: GateReport, *, strict: bool) -> bytes:
    """The document in UTF-8, with its declaration."""
    suites = ElementTree.Element("testsuites", name=SUITE)
    for pair in comparison.pairs:
        cases = list(_cases(comparison, pair, report, strict=strict))
        suite = ElementTree.SubElement(suites, "testsuite", name=_names(comparison, pair))
        suite.extend(cases)
        _count(suite, cases)
    _count(suites, list(suites.iter("testcase")))
    ElementTree.indent(suites)
    told: bytes = ElementTree.tostring(suites, encoding="utf-8", xml_declaration=True)
    return told + b"\n"


def _names(comparison: Comparison, pair: Pair) -> str:
    """The runs of both sides: base against slow."""
    sides = (
        ", ".join(run.name for run in comparison.runs if run.side == side)
        for side in (pair.second, pair.first)
    )
    return _text(" against ".join(sides))


def _cases(
    comparison: Comparison, pair: Pair, report: GateReport, *, strict: bool
) -> Iterator[ElementTree.Element]:
    place = f"probe.compare.{pair.first}-{pair.second}"
    case = ElementTree.Element("testcase", classname=place, name=COMPARABLE, time="0")
    verdict = verdict_sentence(pair, material=comparison.material)
    if pair.comparability.judgement is Judgement.NOT_COMPARABLE:
        _end(case, "error", Exit.NOT_COMPARABLE, judgement_sentence(pair))
    elif report.end is Exit.INCONCLUSIVE and not report.outcomes:
        # Without conditions, strict asks for a conclusive headline.
        _end(case, "failure", Exit.INCONCLUSIVE, verdict)
    ElementTree.SubElement(case, "system-out").text = _text(
        f"{judgement_sentence(pair)}\n{verdict}"
    )
    yield case
    for outcome in report.outcomes:
        if outcome.pair != f"{pair.first}-{pair.second}":
            continue
        name = _text(f"not {outcome.condition.text}")
        case = ElementTree.Element("testcase", classname=place, name=name, time="0")
        if outcome.result is Result.FAILED:
            _end(case, "failure", outcome.result, _said(outcome))
        elif outcome.result is Result.INCONCLUSIVE:
            _end(case, "failure" if strict else "skipped", outcome.result, _said(outcome))
        yield case


def _said(outcome: Outcome) -> str:
    return f"{outcome.condition.text}: {outcome.result}, found {format_found(outcome)}"


def _end(case: ElementTree.Element, tag: str, kind: str, said: str) -> None:
    message = _text(said)
    facts = {"message": message} if tag == "skipped" else {"message": message, "type": str(kind)}
    ElementTree.SubElement(case, tag, facts).text = message


def _count(holder: ElementTree.Element, cases: list[ElementTree.Element]) -> None:
    holder.set("tests", str(len(cases)))
    for tag, name in _COUNTED.items():
        holder.set(name, str(sum(case.find(tag) is not None for case in cases)))
    holder.set("time", "0")


def _text(text: str) -> str:
    """Without characters that XML forbids: the library escapes signs, and leaves those in."""
    lines = (printable(line) for line in text.split("\n"))
    return "\n".join(line.replace("\ufffe", "").replace("\uffff", "") for line in lines)
