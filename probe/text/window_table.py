"""A profiled window: where its time went, what it is bound by, and what to look at in it."""

from collections.abc import Mapping, Sequence

from rich.text import Text

from probe.analyse.trace.bound import Bound
from probe.analyse.trace.gaps import GapCause
from probe.analyse.trace.summary import TraceSummary
from probe.text.aligned import align, with_heading
from probe.text.printable import shortened
from probe.text.time_table import bar
from probe.units import format_bytes, format_count, format_duration, format_percent

MOST_OPERATORS = 8
MOST_ON_PATH = 4
LONGEST_NAME = 38
LONGEST_ON_PATH = 62
LEAST_SHARE = 0.005
"""Of the wall time; what takes less is not worth a word."""

_BOUND = {
    Bound.COMPUTATION: "nothing beside computation takes a tenth of the window",
    Bound.COMMUNICATION: "computation stands still for communication",
    Bound.MEMCPY: "computation stands still for copies",
    Bound.LAUNCHING: "the host launches slower than the device computes: fewer, larger kernels",
    Bound.HOST: "nothing runs while the host is outside of operators: Python, logging",
    Bound.DATA: "nothing runs while the host waits for the next batch",
    Bound.SYNCHRONISING: "the host waits for the device before it gives it more to do",
    Bound.DEPENDENCY: "streams of the device wait for each other",
}
_CAUSE = {
    GapCause.LAUNCHING: "launching",
    GapCause.SYNCHRONISING: "synchronising",
    GapCause.DATA: "waiting for data",
    GapCause.HOST: "outside of operators",
    GapCause.DELAY: "launch delay",
    GapCause.DEPENDENCY: "waiting for a stream",
}


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
        *_verdict(summary),
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


def _verdict(summary: TraceSummary) -> list[Text]:
    total, bound = summary.total, summary.bound
    assert bound is not None, "a window with wall time has a verdict"
    lines = [_line(f"bound by {bound}: {_BOUND[bound]}")]
    if total.overlap is not None:
        hidden, all_of_it = format_percent(total.overlap), format_duration(total.comm_ns)
        lines.append(_line(f"{hidden} of {all_of_it} of communication runs under computation"))
    if summary.idle_by_cause_ns and total.idle_ns >= LEAST_SHARE * total.wall_ns:
        causes = _shares(
            {_CAUSE[cause]: idle_ns for cause, idle_ns in summary.idle_by_cause_ns.items()},
            total.idle_ns,
        )
        count = sum(gaps.count for gaps in summary.gaps)
        longest = format_duration(max(gaps.longest_ns for gaps in summary.gaps))
        lines.append(_line(f"idle in {count:,} gaps, the longest {longest}: {causes}"))
    return lines


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
    wall_ns = summary.total.wall_ns
    kinds = {kind.value: part_ns for kind, part_ns in summary.path_by_kind_ns.items()}
    longest = list(summary.path_by_name_ns.items())[:MOST_ON_PATH]
    rows = [
        (shortened(name, longest=LONGEST_ON_PATH), format_percent(part_ns / wall_ns))
        for name, part_ns in longest
    ]
    lines = [_line(f"critical path: {_shares(kinds, wall_ns)}")]
    if rows:
        lines += with_heading(align([("longest on it", "share"), *rows], right=(1,)), "dim")
    return lines


def _shares(parts: Mapping[str, int], whole: int) -> str:
    told: Sequence[tuple[str, int]] = sorted(parts.items(), key=lambda item: -item[1])
    return ", ".join(
        f"{name} {format_percent(part / whole)}"
        for name, part in told
        if part >= LEAST_SHARE * whole
    )


def _line(said: str, style: str = "dim") -> Text:
    return Text(said, style=style, overflow="fold")
