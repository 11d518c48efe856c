"""A comparison as blocks of plain texts: what the terminal aligns and Markdown puts into tables.

A block is a title, a table and sentences below it. Every number is written here, once; texts from a
run are made printable here.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from probe.analyse.compare.comparison import Comparison, Pair, RunLine
from probe.analyse.compare.conditions import UNIT_OF, Against
from probe.analyse.compare.gate import GateReport
from probe.analyse.compare.gate import Outcome as GateOutcome
from probe.analyse.compare.measure import METRIC, MeasureChange, MeasureUnit, Outcome, Verdict
from probe.analyse.compare.setup import Plain
from probe.text.offload import offload_words
from probe.text.printable import printable
from probe.units import (
    MISSING,
    format_bytes,
    format_count,
    format_duration,
    format_exact,
    format_number,
    format_percent,
    format_ratio,
)

LONGEST_NAME = 60
LONGEST_VALUE = 18
LONGEST_WHOLE = 2000
"""Of a value where nothing is to be left out: a stranger's run may hold megabytes."""
LONGEST_METRIC = 22
LONGEST_HEADING = 12
MOST_DIFFERENCES = 12
MOST_METRICS = 12
FROM_FACTOR = 10
"""From here on a change is told as a factor."""


@dataclass(frozen=True, kw_only=True)
class Block:
    """A title, a table and sentences; any of them may be empty."""

    title: str = ""
    headings: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    right: frozenset[int] = frozenset()
    """Columns that end flush."""
    outcomes: tuple[Outcome | None, ...] = ()
    """For each row whether its last cell is good or bad news."""
    below: tuple[str, ...] = ()


def runs_block(comparison: Comparison, *, columns: int | None = None) -> Block:
    """One row a run: what people ask for first.

    What no run tells has no column; the user's first metric has one if the row stays within the
    columns, and stands among the measures anyway.
    """
    runs = comparison.runs
    of = next((run.throughput_of for run in runs if run.throughput_of), "")
    named = [(heading, [cell(run) for run in runs]) for heading, cell in _RUN_COLUMNS.items()]
    rates = [format_count(run.throughput if run.throughput_of == of else None) for run in runs]
    named.insert(-2, (f"{of}/s", rates))
    metric = next((name for run in runs for name in run.metrics), None)
    if metric is not None:
        values = [format_number(run.metrics.get(metric)) for run in runs]
        named.insert(-1, (shortened(metric, LONGEST_HEADING), values))
    told = [(heading, cells) for heading, cells in named if set(cells) != {MISSING}]
    if columns is not None and metric is not None and _width(told) > columns:
        del told[-2]
    return Block(
        headings=tuple(heading for heading, _ in told),
        rows=tuple(zip(*(cells for _, cells in told), strict=True)),
        right=frozenset(
            index for index, (heading, _) in enumerate(told) if heading not in _FLUSH_LEFT
        ),
    )


def _milliseconds(run: RunLine) -> str:
    if run.step_time_ns is None:
        return MISSING
    milliseconds = run.step_time_ns / 1e6
    return f"{milliseconds:,.{1 if milliseconds >= 10 else 3}f}"


_FLUSH_LEFT = ("run", "prec", "offload")
_RUN_COLUMNS: dict[str, Callable[[RunLine], str]] = {
    "run": lambda run: run.side,
    "prec": lambda run: str(run.precision or MISSING),
    "zero": lambda run: MISSING if run.stage is None else str(run.stage),
    "offload": lambda run: offload_words(
        optimizer=run.offload_optimizer, params=run.offload_params
    ),
    "ms/step": _milliseconds,
    "±": lambda run: format_percent(run.step_time_reach),
    "peak mem": lambda run: format_bytes(run.peak_memory_bytes),
    "loss": lambda run: format_number(run.final_loss),
    "skips": lambda run: format_count(run.skipped_steps),
}


def _width(table: Sequence[tuple[str, Sequence[str]]]) -> int:
    return sum(max(len(cell) for cell in (heading, *cells)) + 2 for heading, cells in table) - 2


def names_block(comparison: Comparison) -> Block:
    """Which letter is which run, and which of its steps count."""
    below = []
    for run in comparison.runs:
        left_out = [
            f"{count:,} {reason.replace('_', ' ')}"
            for reason, count in run.excluded.items()
            if count
        ]
        why = f" ({', '.join(left_out)} left out)" if left_out else ""
        below.append(f"{run.side}  {printable(run.name, limit=LONGEST_NAME)}")
        below.append(
            f"   {format_exact(run.counted_steps)} of {format_exact(run.recorded_steps)} steps "
            f"count{why}{_worth(run)}"
        )
    return Block(below=tuple(below))


def _worth(run: RunLine) -> str:
    if run.effective_steps is None:
        return ""
    return f"; worth {run.effective_steps:,.0f} independent, noise {format_percent(run.noise)}"


def differences_block(pair: Pair, *, whole: bool = False) -> Block:
    """What is not the same, and whether on purpose; whole where there is room for all of it."""
    found = pair.comparability.differences
    most, longest = (len(found), LONGEST_WHOLE) if whole else (MOST_DIFFERENCES, LONGEST_VALUE)
    rows = [
        (
            item.kind.value,
            printable(item.name, limit=LONGEST_NAME),
            _value(item.first, longest),
            _value(item.second, longest),
        )
        for item in found[:most]
    ]
    more = len(found) - most
    below = (f"… and {more:,} more; --json lists all.",) if more > 0 else ()
    headings = ("differs", "in", pair.first, pair.second) if rows else ()
    return Block(headings=headings, rows=tuple(rows), below=below)


def _value(value: Plain | None, longest: int) -> str:
    if value is None:
        return MISSING
    if isinstance(value, str):
        return shortened(value, longest)
    if isinstance(value, bool):
        return str(value).lower()
    return format_exact(value) if isinstance(value, int) else format_number(value)


def measures_block(pair: Pair) -> Block:
    """Every figure with its change and verdict; of many metrics the first few."""
    metrics = [item for item in pair.measures if item.name.startswith(METRIC)]
    left_out = metrics[MOST_METRICS:]
    shown = [item for item in pair.measures if item not in left_out]
    return Block(
        headings=("measure", pair.first, pair.second, "change", "95 % interval", "verdict"),
        rows=tuple(
            (
                measure_name(item),
                format_measure(item, item.first),
                format_measure(item, item.second),
                format_change(item.relative),
                _interval(item),
                "" if item.verdict is Verdict.UNKNOWN else item.verdict.value,
            )
            for item in shown
        ),
        right=frozenset({1, 2, 3, 4}),
        outcomes=tuple(item.outcome for item in shown),
        below=(f"… and {len(left_out):,} more metrics; --json lists all.",) if left_out else (),
    )


def measure_name(item: MeasureChange) -> str:
    """The measure in words for people."""
    if item.name.startswith(METRIC):
        return shortened(item.name.removeprefix(METRIC), LONGEST_METRIC)
    if item.name == "throughput" and item.of:
        return f"{item.of}/s"
    if item.name == "final_loss" and item.of:
        return f"loss {item.of}"
    return item.name.replace("_", " ")


def shortened(text: str, longest: int) -> str:
    """A text of a run, printable and cut to a length."""
    shown = printable(text)
    return shown if len(shown) <= longest else f"{shown[: longest - 1]}…"


def format_measure(item: MeasureChange, value: float | None) -> str:
    """A value in the unit of its measure."""
    return format_value(item.unit, value)


def format_value(unit: MeasureUnit, value: float | None) -> str:
    """A value in its unit."""
    if unit is MeasureUnit.NANOSECONDS:
        return format_duration(value)
    if unit is MeasureUnit.BYTES:
        return format_bytes(value)
    return format_number(value) if unit is MeasureUnit.NUMBER else format_count(value)


def format_change(relative: float | None) -> str:
    """A change with its sign: +5.3 %; 0 % where nothing changed at all; nan stays nan.

    What grew tenfold and more is told as a factor: 65.5 k× and not +7e+06 %.
    """
    if relative is None:
        return MISSING
    if relative == 0:
        return "0 %"
    if relative >= FROM_FACTOR - 1:
        return format_ratio(1 + relative)
    text = format_percent(relative)
    return text if text[0] in "-<>n" else f"+{text}"


def _interval(item: MeasureChange) -> str:
    if item.change is None:
        return ""
    return _ends(item.change.low - 1, item.change.high - 1)


def _ends(low: float, high: float) -> str:
    return f"{low * 100:+.1f} … {high * 100:+.1f} %"


def gate_block(report: GateReport, *, several: bool) -> Block:
    """What became of each condition."""
    if not report.outcomes:
        return Block()
    tone = {"passed": Outcome.BETTER, "failed": Outcome.WORSE, "inconclusive": Outcome.NEUTRAL}
    return Block(
        title="Gate",
        headings=("fails if", *(("pair",) if several else ()), "found", "result"),
        rows=tuple(
            (
                printable(item.condition.text, limit=40),
                *((item.pair,) if several else ()),
                format_found(item),
                item.result.value,
            )
            for item in report.outcomes
        ),
        outcomes=tuple(tone[item.result.value] for item in report.outcomes),
    )


def format_found(item: GateOutcome) -> str:
    """What the threshold was held against, with its interval where it has one."""
    if item.found is None:
        return item.reason
    if item.low is not None and item.high is not None:
        return f"{format_change(item.found)} ({_ends(item.low, item.high)})"
    if item.condition.against is Against.RELATIVE:
        return format_change(item.found)
    unit = UNIT_OF.get(item.condition.measure, MeasureUnit.NUMBER)
    sign = "+" if item.condition.against is Against.DIFFERENCE and item.found > 0 else ""
    return f"{sign}{format_value(unit, item.found)}"


def sentences_block(title: str, sentences: Sequence[str]) -> Block:
    """Sentences under a title, or nothing."""
    return Block(title=title, below=tuple(sentences)) if sentences else Block()
