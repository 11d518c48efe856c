"""What `probe run` says at the end: how it went, what was recorded, where to look further."""

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from probe.analyse.findings.finding import Finding
from probe.analyse.steps.headline import Headline
from probe.read.run import Run
from probe.text.facts_grid import LONGEST_TEXT, facts_grid
from probe.text.finding_list import finding_lines
from probe.text.gaps import gap_sentences
from probe.text.marks import STATUS_STYLE
from probe.text.printable import printable
from probe.text.run_detail import figures


def run_end(
    run: Run,
    headline: Headline,
    *,
    findings: Sequence[Finding],
    cause: str | None,
    recording_stopped: str | None,
) -> RenderableType:
    """The end of a run in a few lines.

    `cause` is what the first rank that failed said, `recording_stopped` why rows are missing.
    """
    status = Text(run.verdict.status, style=STATUS_STYLE[run.verdict.status])
    name = printable(run.name)
    title = Text.assemble("\n", (name, "bold"), "  ", status, "  ", overflow="fold")
    title.append(printable(run.verdict.why, limit=LONGEST_TEXT), style="dim")
    parts: list[RenderableType] = [title]
    if cause:
        parts.append(Text(printable(cause, limit=LONGEST_TEXT), style="red", overflow="fold"))
    if recording_stopped:
        what = f"The recording stopped early: {printable(recording_stopped, limit=LONGEST_TEXT)}"
        parts.append(Text(what, style="yellow", overflow="fold"))
    if headline.recorded_steps:
        parts.append(facts_grid([*figures(run.manifest, headline)]))
        parts += finding_lines(findings)
    elif recording_stopped is None:
        parts += [Text(said, style="yellow") for said in gap_sentences(run, headline, {})]
    parts.append(Text(f"look further  probe show {name}", style="dim", overflow="fold"))
    return Group(*parts)
