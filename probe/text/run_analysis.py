"""All that was concluded from a run, one block after the other: findings first, then the tables."""

from collections.abc import Sequence

from rich.console import RenderableType
from rich.text import Text

from probe.analyse.findings.finding import Finding
from probe.analyse.run_facts import RunFacts
from probe.text.communication_table import communication_table
from probe.text.finding_list import finding_list
from probe.text.memory_table import memory_table
from probe.text.offload_table import offload_table
from probe.text.precision_table import precision_table
from probe.text.time_table import time_table


def run_analysis(facts: RunFacts, findings: Sequence[Finding]) -> list[RenderableType]:
    """Blocks with an empty line behind each; what the run does not tell is left out."""
    parts = finding_list(findings, counted=len(facts.counted))
    views = (time_table, memory_table, communication_table, offload_table, precision_table)
    for view in views:
        if lines := view(facts):
            parts += [*lines, Text()]
    return parts
