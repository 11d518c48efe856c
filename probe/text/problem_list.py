"""The problems of a run: where each is, what it is, and what a person can do about it."""

from collections import Counter
from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from probe.read.problem import Problem
from probe.schema.vocabulary import Severity
from probe.text.marks import SEVERITY_STYLE
from probe.text.printable import printable

LONGEST_TEXT = 400
"""Characters of a sentence that may quote from the run."""


def problem_list(problems: Sequence[Problem], *, name: str, checked: str) -> RenderableType:
    """Each problem with its place and its remedy, and how many there are in all."""
    shown = printable(name)
    if not problems:
        return Text(f"{shown}: no problems in {checked}.")
    end = Text(f"{shown}: {describe_problems(problems)} in {checked}.")
    return Group(*map(_block, problems), end)


def _block(problem: Problem) -> RenderableType:
    severity = Text(problem.severity, style=SEVERITY_STYLE[problem.severity])
    place = Text(place_of(problem), overflow="fold", style="bold")
    head = Table.grid(padding=(0, 2, 0, 0))
    head.add_column(width=max(len("warning"), len(problem.severity)))
    head.add_column()
    head.add_row(severity, place)
    head.add_row("", Text(printable(problem.what, limit=LONGEST_TEXT), overflow="fold"))
    remedy = Text(printable(problem.hint, limit=LONGEST_TEXT), overflow="fold", style="dim")
    head.add_row("", remedy)
    return Padding(head, (0, 0, 1, 0))


def place_of(problem: Problem) -> str:
    """The file, and the line where there is one: rank_00000/steps.jsonl:31."""
    file = printable(problem.file)
    return file if problem.line is None else f"{file}:{problem.line}"


def describe_problems(problems: Sequence[Problem]) -> str:
    """How many problems of each severity: 2 errors, 1 warning."""
    found = Counter(item.severity for item in problems)
    counts = ((severity, found[severity]) for severity in Severity if found[severity])
    return ", ".join(
        f"{count:,} {severity}{'s' if count > 1 and severity is not Severity.INFO else ''}"
        for severity, count in counts
    )
