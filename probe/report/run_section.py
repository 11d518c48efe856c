"""One run in a report: what it was, what stands out, then views in the order of the findings."""

from collections.abc import Iterator, Sequence

from probe.analyse.findings.finding import Finding, View
from probe.figures.of_run import (
    communication_charts,
    memory_charts,
    offload_charts,
    precision_charts,
    step_charts,
    window_charts,
)
from probe.report.chart import ChartPaper
from probe.report.markup import Html, element, facts_list, joined, table_of
from probe.telling.whole_run import WholeRun
from probe.telling.window import ToldWindow
from probe.text.communication_table import communication_block
from probe.text.finding_list import finding_facts, quiet_sentence
from probe.text.memory_table import memory_block
from probe.text.operators_block import operators_block
from probe.text.precision_table import precision_facts
from probe.text.problem_list import describe_problems
from probe.text.run_detail import figures, identity
from probe.text.time_table import time_block
from probe.text.window_words import window_block

LOOK = "look"
"""The fact of a finding that becomes a link."""


def run_section(
    told: WholeRun, window: ToldWindow | None, *, anchor: str, now_ns: int, paper: ChartPaper
) -> Html:
    """The section without its heading; the window is the one that the run is told by."""
    run, facts = told.run, told.facts
    cards = [
        element("div", element("dt", name), element("dd", text))
        for name, text in figures(run.manifest, told.headline)
        if text
    ]
    problems = describe_problems(told.problems) if told.problems else ""
    return joined(
        (
            element("p", run.verdict.why, class_="soft"),
            element("p", f"{problems}; `probe doctor` shows what and where.") if problems else "",
            _findings(told.findings, counted=len(facts.counted), anchor=anchor),
            element("dl", *cards, class_="cards"),
            facts_list(identity(run, run.manifest, now_ns)),
            *_views(told, window, anchor, paper),
        )
    )


def _findings(found: Sequence[Finding], *, counted: int, anchor: str) -> Html:
    if not found:
        return element("p", quiet_sentence(counted), class_="quiet")
    return joined(
        element(
            "article",
            element("h4", finding.title),
            facts_list(item for item in finding_facts(finding) if item[0] != LOOK),
            element("p", *_evidence(finding, anchor)),
            class_="finding",
        )
        for finding in found
    )


def _evidence(finding: Finding, anchor: str) -> Iterator[str]:
    """Where the evidence is, as a link to the view of this page."""
    yield "Evidence: "
    where = dict(finding_facts(finding))[LOOK]
    yield element("a", where, href=f"#{anchor}-{finding.link.view.value}")


def _views(
    told: WholeRun, window: ToldWindow | None, anchor: str, paper: ChartPaper
) -> Iterator[Html]:
    """The views that have anything to show."""
    facts = told.facts
    for view, name, table, charts in (
        (View.STEPS, "Time", table_of(time_block(facts)), step_charts(facts, told.series)),
        (
            View.PRECISION,
            "Precision",
            facts_list(precision_facts(facts)),
            precision_charts(facts, told.series),
        ),
        (View.MEMORY, "Memory", table_of(memory_block(facts)), memory_charts(facts, told.series)),
        (
            View.COMMUNICATION,
            "Communication",
            table_of(communication_block(facts)),
            communication_charts(facts, told.series),
        ),
        (View.OFFLOAD, "Offload", Html(), offload_charts(facts, told.series)),
        (
            "window",
            "Profiled window",
            joined(
                (
                    _understood(window),
                    table_of(
                        operators_block(told.window.lowest.operators, rank=told.window.lowest.rank)
                    ),
                )
            ),
            window_charts(told.window.lanes, told.window.breakdowns),
        ),
    ):
        drawn = paper.draw_all(charts)
        if table or drawn:
            heading = element("h3", name)
            yield element("section", heading, drawn, table, id=f"{anchor}-{view}")


def _understood(window: ToldWindow | None) -> Html:
    """What the window is bound by, and its critical path."""
    if window is None:
        return Html()
    return table_of(window_block(window.summary, rank=window.file.rank))
