"""Findings for people: what stands out, its numbers, what to change and what that should bring."""

from collections.abc import Sequence

from rich.console import RenderableType
from rich.text import Text

from probe.analyse.findings.finding import Finding, GainKind, Link
from probe.text.facts_grid import facts_grid
from probe.text.printable import printable
from probe.units import format_exact, format_percent

LEAST_GAIN = 0.0005
"""A share that would be written as 0.0 %."""


def finding_list(findings: Sequence[Finding], *, counted: int) -> list[RenderableType]:
    """All findings in their order, an empty line behind each; nothing is said of no steps."""
    if not findings:
        return [Text(quiet_sentence(counted), style="green"), Text()] if counted else []
    count = len(findings)
    order = ", the largest expected gain first" if count > 1 else ""
    heading = Text(f"{count} finding{'s' if count > 1 else ''}{order}", style="bold")
    parts: list[RenderableType] = [heading, Text()]
    for finding in findings:
        parts += [_title(finding), facts_grid(finding_facts(finding)), Text()]
    return parts


def quiet_sentence(counted: int) -> str:
    """What is said where no rule found anything in so many steps."""
    if not counted:
        return "No step counts: nothing to judge."
    return f"Nothing stands out in {format_exact(counted)} step{'s' if counted > 1 else ''}."


def finding_lines(findings: Sequence[Finding]) -> list[Text]:
    """One sentence a finding, for where there is no room for more."""
    return [_title(finding) for finding in findings]


def _title(finding: Finding) -> Text:
    return Text(printable(finding.title), style="yellow", overflow="fold")


def finding_facts(finding: Finding) -> list[tuple[str, str]]:
    """Its numbers, what to try, what that should bring and where to look."""
    facts = [("found", "; ".join(f"{item.name} {item.value}" for item in finding.evidence))]
    facts += [("try", f"{change.setting} – {change.why}") for change in finding.changes]
    return [
        *facts,
        ("gain", gain_words(finding)),
        ("look", f"{link_words(finding.link)} ({finding.id})"),
    ]


def gain_words(finding: Finding) -> str:
    """What the change should bring, and how that was worked out."""
    gain = finding.gain
    if gain.kind is GainKind.TRUST:
        return gain.how
    if gain.share < LEAST_GAIN:
        return f"hardly any {gain.kind}: {gain.how}"
    return f"up to {format_percent(gain.share)} of the {gain.kind}: {gain.how}"


def link_words(link: Link) -> str:
    """The view and the steps that a finding points to."""
    if link.first_step is None or link.last_step is None:
        return link.view
    if link.first_step == link.last_step:
        return f"{link.view}, step {format_exact(link.first_step)}"
    return f"{link.view}, steps {format_exact(link.first_step)} to {format_exact(link.last_step)}"
