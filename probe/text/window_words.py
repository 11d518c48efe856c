"""What a profiled window is bound by, why it idles and what its critical path holds, in words."""

from collections.abc import Mapping, Sequence

from probe.analyse.trace.bound import Bound
from probe.analyse.trace.gaps import GapCause
from probe.analyse.trace.summary import TraceSummary
from probe.text.comparison_blocks import Block
from probe.text.printable import shortened
from probe.units import format_duration, format_percent

MOST_ON_PATH = 4
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


def verdict_lines(summary: TraceSummary) -> list[str]:
    """What it is bound by, what of its communication is hidden, why it idles."""
    total, bound = summary.total, summary.bound
    assert bound is not None, "a window with wall time has a verdict"
    lines = [f"bound by {bound}: {_BOUND[bound]}"]
    if total.overlap is not None:
        hidden, all_of_it = format_percent(total.overlap), format_duration(total.comm_ns)
        lines.append(f"{hidden} of {all_of_it} of communication runs under computation")
    if summary.idle_by_cause_ns and total.idle_ns >= LEAST_SHARE * total.wall_ns:
        causes = _shares(
            {_CAUSE[cause]: idle_ns for cause, idle_ns in summary.idle_by_cause_ns.items()},
            total.idle_ns,
        )
        count = sum(gaps.count for gaps in summary.gaps)
        longest = format_duration(max(gaps.longest_ns for gaps in summary.gaps))
        lines.append(f"idle in {count:,} gaps, the longest {longest}: {causes}")
    return lines


def path_line(summary: TraceSummary) -> str:
    """The critical path by kind."""
    kinds = {kind.value: part_ns for kind, part_ns in summary.path_by_kind_ns.items()}
    return f"critical path: {_shares(kinds, summary.total.wall_ns)}"


def longest_on_path(summary: TraceSummary) -> list[tuple[str, str]]:
    """Names on the critical path and their shares of the wall time, the longest first."""
    wall_ns = summary.total.wall_ns
    return [
        (shortened(name, longest=LONGEST_ON_PATH), format_percent(part_ns / wall_ns))
        for name, part_ns in list(summary.path_by_name_ns.items())[:MOST_ON_PATH]
    ]


def window_block(summary: TraceSummary | None, *, rank: int) -> Block:
    """Verdict and critical path as one table; nothing without a step."""
    if summary is None or not summary.total.wall_ns:
        return Block()
    return Block(
        title=f"Critical path, rank {rank}",
        headings=("longest on it", "share"),
        rows=tuple(longest_on_path(summary)),
        right=frozenset({1}),
        below=(*verdict_lines(summary), path_line(summary)),
    )


def _shares(parts: Mapping[str, int], whole: int) -> str:
    told: Sequence[tuple[str, int]] = sorted(parts.items(), key=lambda item: -item[1])
    return ", ".join(
        f"{name} {format_percent(part / whole)}"
        for name, part in told
        if part >= LEAST_SHARE * whole
    )
