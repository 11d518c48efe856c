"""What an import made: a line a trace, and where the run is."""

from rich.text import Text

from probe.adopt import Adopted, AdoptedTrace
from probe.analyse.trace.steps import StepMark
from probe.text.aligned import align, with_heading
from probe.text.printable import printable
from probe.text.problem_list import describe_problems
from probe.units import format_exact

MOST_LINES = 16
"""Traces that are listed one by one."""
_MARKS = {
    StepMark.PROFILER_STEP: "",
    StepMark.PHASES: "steps told by their phases",
    StepMark.WHOLE_TRACE: "no steps marked; taken as one",
}


def import_report(adopted: Adopted) -> list[Text]:
    """Rank, steps and events of each trace, and the name of the run."""
    shown = adopted.traces[:MOST_LINES]
    rows = [("rank", "events", "steps", "file"), *map(_row, shown)]
    lines = with_heading(align(rows, right=(0, 1)))
    if more := len(adopted.traces) - len(shown):
        lines.append(Text(f"and {format_exact(more)} more"))
    name = printable(adopted.path.name)
    lines += [Text(), Text(f"{name} is made of {_count(len(adopted.traces))}.")]
    if adopted.problems:
        lines.append(Text(f"{describe_problems(adopted.problems)} on the way, as told above."))
    return lines


def _row(item: AdoptedTrace) -> tuple[str, ...]:
    steps = _range(item.steps)
    remark = _MARKS[item.mark]
    file = printable(item.source.name)
    return (
        str(item.rank),
        format_exact(item.events),
        steps,
        f"{file} ({remark})" if remark else file,
    )


def _range(steps: tuple[int, ...]) -> str:
    if len(steps) < 2:
        return ", ".join(map(str, steps))
    return f"{steps[0]}-{steps[-1]}"


def _count(traces: int) -> str:
    return f"{format_exact(traces)} trace{'s' if traces != 1 else ''}"
