"""What `--json` prints: one document on stdout and nothing else, for programs.

Keys are stable: new ones may be added. nan and the infinities are the words of the run format.
Everything beyond ASCII is escaped, so that the text passes any pipe and acts in no terminal.
"""

from typing import Any

import click

from probe.read.problem import Problem
from probe.telling.json_text import json_text

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")


def print_json(value: Any) -> None:
    """Print a plain value, a document or a frozen result as indented JSON."""
    click.echo(json_text(value))


def problem_json(problem: Problem) -> dict[str, Any]:
    """A problem with all its parts."""
    return {
        "severity": problem.severity,
        "file": problem.file,
        "line": problem.line,
        "what": problem.what,
        "hint": problem.hint,
    }
