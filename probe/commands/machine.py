"""What `--json` prints: one document on stdout and nothing else, for programs.

Keys are stable: new ones may be added. nan and the infinities are the words of the run format.
Everything beyond ASCII is escaped, so that the text passes any pipe and acts in no terminal.
"""

import json
from typing import Any

import click
import msgspec

from probe.errors import ProbeError
from probe.read.problem import Problem
from probe.schema.codec import with_words

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")


def print_json(value: Any) -> None:
    """Print a plain value, a document or a frozen result as indented JSON."""
    try:
        text = json.dumps(with_words(msgspec.to_builtins(value)), indent=2, allow_nan=False)
    except RecursionError:
        raise ProbeError("The run's manifest is nested too deep to be printed as JSON.") from None
    click.echo(text)


def problem_json(problem: Problem) -> dict[str, Any]:
    """A problem with all its parts."""
    return {
        "severity": problem.severity,
        "file": problem.file,
        "line": problem.line,
        "what": problem.what,
        "hint": problem.hint,
    }
