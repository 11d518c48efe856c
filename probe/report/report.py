"""A report of one run or of several: sections in order, in one document."""

from collections.abc import Sequence
from dataclasses import dataclass

from probe import __version__
from probe.analyse.compare.comparison import Comparison, side_label
from probe.figures.overlay import OverlaidRun
from probe.report.chart import ChartPaper
from probe.report.comparison_section import comparison_section
from probe.report.markup import Html, element
from probe.report.page import page
from probe.report.run_section import run_section
from probe.telling.whole_run import WholeRun
from probe.telling.window import ToldWindow
from probe.text.printable import printable
from probe.units import format_moment

LONGEST_NAME = 80


@dataclass(frozen=True, kw_only=True)
class Report:
    """The document and what is in it."""

    html: str
    charts: int
    points: int


def write_report(
    runs: Sequence[WholeRun],
    windows: Sequence[ToldWindow | None],
    comparison: Comparison | None,
    *,
    now_ns: int,
) -> Report:
    """One run in full, or the comparison of several with each of them folded away below; of each
    run the profiled window that it is told by."""
    paper = ChartPaper()
    names = [printable(told.run.name, limit=LONGEST_NAME) for told in runs]
    sections: list[tuple[str, str, Html]] = []
    if comparison is not None:
        labels = [f"{side_label(place)} {name}" for place, name in enumerate(names)]
        overlaid = [
            OverlaidRun(label=label, steps=told.series.steps, training=told.series.training)
            for label, told in zip(labels, runs, strict=True)
        ]
        content = comparison_section(comparison, overlaid, paper=paper)
        heading = element("h2", "Comparison")
        sections.append(
            ("comparison", "Comparison", element("section", heading, content, id="comparison"))
        )
    else:
        labels = names
    for place, (label, told, window) in enumerate(zip(labels, runs, windows, strict=True)):
        anchor = f"run-{place}"
        content = run_section(told, window, anchor=anchor, now_ns=now_ns, paper=paper)
        status = element("span", told.run.verdict.status.value, class_="status")
        if comparison is None:
            section = element("section", element("h2", label, status), content, id=anchor)
        else:
            summary = element("summary", label, status)
            section = element("details", summary, content, class_="run", id=anchor)
        sections.append((anchor, label, section))
    title = names[0] if comparison is None else f"{len(runs)} runs: {', '.join(names)}"
    html = page(
        title=f"ZeroProbe report: {title}",
        lead=f"Written {format_moment(now_ns)} by ZeroProbe {__version__}.",
        sections=sections,
        paper=paper,
        about=f"{paper.charts} charts, {paper.points:,} points. This file is whole: it asks no "
        "network for anything.",
    )
    return Report(html=html, charts=paper.charts, points=paper.points)
