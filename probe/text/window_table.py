"""A profiled window: where its time went, what it is bound by, and what to look at in it."""

from rich.text import Text

from probe.analyse.trace.summary import TraceSummary
from probe.text.aligned import align, with_heading
from probe.text.printable import shortened
from probe.text.time_table import bar
from probe.text.window_words import longest_on_path, path_line, verdict_lines
from probe.units import format_bytes, format_count, format_duration, format_percent

MOST_OPERATORS = 8
LONGEST_NAME = 38


def window_table(
    summary: TraceSummary | None, *, rank: int, step: int, size_bytes: int, windows: int
) -> list[Text]:
    """The blocks of one window with blank lines between, or one line if it was not read."""
    head = f"profiled window of rank {rank}"
    if summary is None:
        size = format_bytes(size_bytes)
        said = f"{head} from step {step} ({size}) was not read; `probe show --trace` reads it"
        return [_line(said)]
    of = f", one of {windows:,}" if windows > 1 else ""
    where = "on the device" if summary.on_device else "on the host, where operators compute"
    title = _line(f"{head}{of}: {_steps(summary)}, {where}", style="bold")
    if not summary.total.wall_ns:
        return [title, _line("It holds no step.")]
    return [
        title,
        *_parts(summary),
        *map(_line, verdict_lines(summary)),
        Text(),
        *_operators(summary),
        Text(),
        *_path(summary),
    ]


def _steps(summary: TraceSummary) -> str:
    first, *_ = numbers = [step.number for step in summary.steps] or [0]
    return f"step {first}" if len(numbers) == 1 else f"steps {first} to {numbers[-1]}"


def _parts(summary: TraceSummary) -> list[Text]:
    total = summary.total
    parts = (
        ("computation", total.computation_ns),
        ("exposed communication", total.exposed_comm_ns),
        ("exposed copies", total.exposed_memcpy_ns),
        ("idle", total.idle_ns),
    )
    rows = [
        (name, format_duration(part_ns), format_percent(share), bar(share))
        for name, part_ns in parts
        if part_ns or name in ("computation", "idle")
        for share in (part_ns / total.wall_ns,)
    ]
    whole = sum(part_ns for _, part_ns in parts)
    rows.append(("sum", format_duration(whole), format_percent(whole / total.wall_ns), ""))
    heading = ("part", "time", "share", "")
    return with_heading(align([heading, *rows], right=(1, 2)), "dim")


def _operators(summary: TraceSummary) -> list[Text]:
    """By time on the device where there is one, else by own time."""
    rows = [
        (
            shortened(item.name, longest=LONGEST_NAME),
            format_count(item.calls),
            format_duration(item.own_ns),
            format_duration(item.total_ns),
            format_duration(item.device_ns) if summary.on_device else "",
        )
        for item in sorted(
            summary.operators, key=lambda item: -item.device_ns if summary.on_device else 0
        )[:MOST_OPERATORS]
    ]
    heading = ("operator", "calls", "own", "total", "device" if summary.on_device else "")
    if not rows:
        return [_line("The window holds no operators.")]
    return with_heading(align([heading, *rows], right=(1, 2, 3, 4)), "dim")


def _path(summary: TraceSummary) -> list[Text]:
    lines = [_line(path_line(summary))]
    if rows := longest_on_path(summary):
        lines += with_heading(align([("longest on it", "share"), *rows], right=(1,)), "dim")
    return lines


def _line(said: str, style: str = "dim") -> Text:
    return Text(said, style=style, overflow="fold")
