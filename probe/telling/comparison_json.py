"""A comparison as plain values, for `--json` and for a download."""

from typing import Any

from probe.analyse.compare.comparison import Comparison
from probe.analyse.compare.gate import GateReport
from probe.analyse.compare.next_looks import next_looks


def comparison_json(comparison: Comparison, report: GateReport) -> dict[str, Any]:
    """The comparison and its gate; all numbers are those of the frozen results."""
    return {
        "comparison": comparison,
        "look_next": {f"{pair.first}-{pair.second}": next_looks(pair) for pair in comparison.pairs},
        "gate": {"end": report.end, "exit_code": report.exit_code, "outcomes": report.outcomes},
    }
