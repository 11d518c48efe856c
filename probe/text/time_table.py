"""Where the time of a run went: the steps that count, their phases, and how even they were."""

from rich.text import Text

from probe.analyse.run_facts import RunFacts
from probe.analyse.steps.phases import PhaseTime
from probe.analyse.steps.steps import CountedSteps, Exclusion
from probe.schema.vocabulary import Phase
from probe.text.aligned import align, with_heading
from probe.text.comparison_blocks import Block
from probe.units import (
    MISSING,
    format_count,
    format_duration,
    format_exact,
    format_number,
    format_percent,
)

BAR_CELLS = 24
_EIGHTHS = " ▏▎▍▌▋▊▉█"


def time_table(facts: RunFacts) -> list[Text]:
    """Phases with their shares, which sum to the whole; nothing if no step counts."""
    block = time_block(facts)
    if not block.rows:
        return []
    shares = [item.share for item in _present(facts)]
    bars = [*map(bar, shares), ""]
    rows = [(*row, drawn) for row, drawn in zip(block.rows, bars, strict=True)]
    lines = with_heading(align([(*block.headings, ""), *rows], right=tuple(block.right)), "dim")
    return [*lines, *(Text(remark, style="dim") for remark in block.below)]


def time_block(facts: RunFacts) -> Block:
    """The same as plain texts, for whoever draws tables otherwise."""
    if not facts.phases:
        return Block()
    rows = [
        (item.phase.value, format_duration(item.median_ns), format_percent(item.share))
        for item in _present(facts)
    ]
    total = sum(item.share for item in facts.phases)
    rows.append(("sum", "", format_percent(total)))
    return Block(
        headings=("phase", "median", "share"),
        rows=tuple(rows),
        right=frozenset({1, 2}),
        below=tuple(_remarks(facts)),
    )


def _present(facts: RunFacts) -> list[PhaseTime]:
    return [item for item in facts.phases if item.total_ns or item.phase is Phase.OTHER]


def bar(share: float) -> str:
    """A share of one as a bar, to an eighth of a cell."""
    eighths = round(max(0.0, min(1.0, share)) * BAR_CELLS * 8)
    return _EIGHTHS[8] * (eighths // 8) + _EIGHTHS[eighths % 8].strip()


def _remarks(facts: RunFacts) -> list[str]:
    remarks = [_counted(facts.counted)]
    if facts.regularity is not None:
        even = facts.regularity
        remarks.append(
            f"noise {format_percent(even.noise)} (MAD / median), "
            f"95 % of the steps within {format_duration(even.p95_ns)}"
        )
    rates = facts.throughput
    told = [
        f"{_rate(rate)} {unit}/s"
        for unit, rate in (("samples", rates.samples_per_s), ("tokens", rates.tokens_per_s))
        if rate is not None
    ]
    if facts.work is not None:
        mfu = facts.work.mfu
        share = "" if mfu is None else f" ({format_percent(mfu)} of the peak)"
        told.append(f"{format_count(facts.work.flops_per_s)} model FLOPs/s{share}")
    return [*remarks, ", ".join(told)] if told else remarks


def _rate(rate: float | None) -> str:
    if rate is None:
        return MISSING
    return format_count(rate) if rate >= 10_000 else format_number(float(f"{rate:.3g}"))


def _counted(counted: CountedSteps) -> str:
    out = [
        f"{format_exact(counted.excluded[reason])} {reason.value.replace('_', '-')}"
        for reason in Exclusion
        if counted.excluded[reason]
    ]
    left_out = f"; left out: {', '.join(out)}" if out else ""
    again = f"; {format_exact(counted.repeated)} repeated" if counted.repeated else ""
    return f"{len(counted):,} of {counted.recorded:,} steps count{left_out}{again}"
