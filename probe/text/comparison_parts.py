"""Where a difference between two runs comes from, as blocks: phases, memory, traffic, losses."""

from collections.abc import Iterator

from probe.analyse.compare.comparison import Comparison, Pair
from probe.analyse.compare.shifts import MemoryShift
from probe.schema.vocabulary import Tier
from probe.text.comparison_blocks import Block, shortened
from probe.text.sparkline import share_bar, sparkline
from probe.units import format_bytes, format_count, format_duration, format_exact, format_number

BAR_COLUMNS = 16
LONGEST_OPERATOR = 28
SEEN_SHARE = 0.005
"""Phases below this share of the step in both runs are summed up in one line."""


def waterfall_block(pair: Pair) -> Block:
    """Each phase's part in the difference, and the sum."""
    fall = pair.waterfall
    if fall is None:
        return Block()
    step_ns = max(fall.first_ns, fall.second_ns)
    shown = [
        part for part in fall.phases if max(part.first_ns, part.second_ns) > SEEN_SHARE * step_ns
    ]
    rest = [part for part in fall.phases if part not in shown]
    largest = max((abs(part.delta_ns) for part in shown), default=0.0)
    rows: list[tuple[str, ...]] = [
        (
            part.phase.replace("_", " "),
            format_duration(part.first_ns),
            format_duration(part.second_ns),
            _signed_duration(part.delta_ns),
            share_bar(part.delta_ns, largest, width=BAR_COLUMNS),
        )
        for part in shown
    ]
    if any(part.first_ns or part.second_ns for part in rest):
        ends = [sum(part.first_ns for part in rest), sum(part.second_ns for part in rest)]
        change = _signed_duration(ends[1] - ends[0])
        rows.append(("all others", *map(format_duration, ends), change, ""))
    total = _signed_duration(fall.second_ns - fall.first_ns)
    rows.append(("sum", format_duration(fall.first_ns), format_duration(fall.second_ns), total, ""))
    return Block(
        title="Where the time went",
        headings=("phase", pair.first, pair.second, "difference", ""),
        rows=tuple(rows),
        right=frozenset({1, 2, 3}),
        below=("Means over the middle half of the steps, of the slowest rank in each.",),
    )


def _signed_duration(amount_ns: float) -> str:
    text = format_duration(amount_ns)
    return f"+{text}" if amount_ns > 0 else text


def memory_block(pair: Pair) -> Block:
    """The ledger of the fullest rank, with the closed form of each side."""
    if not pair.memory:
        return Block()
    with_theory = any(
        item.first_theory_bytes is not None or item.second_theory_bytes is not None
        for item in pair.memory
    )
    headings: tuple[str, ...] = ("category", pair.first, pair.second, "difference")
    if with_theory:
        headings = ("category", pair.first, "theory", pair.second, "theory", "difference")
    return Block(
        title="Memory of the fullest rank at its peak",
        headings=headings,
        rows=tuple(_memory_row(item, with_theory=with_theory) for item in pair.memory),
        right=frozenset(range(1, len(headings))),
    )


def _memory_row(item: MemoryShift, *, with_theory: bool) -> tuple[str, ...]:
    tier = "" if item.tier is Tier.DEVICE else f"{item.tier} "
    name = f"{tier}{item.category or 'other'}".replace("_", " ")
    first, second = item.first_bytes or 0, item.second_bytes or 0
    delta = second - first
    change = f"{'+' if delta > 0 else ''}{format_bytes(delta)}"
    if not with_theory:
        return (name, format_bytes(first), format_bytes(second), change)
    return (
        name,
        format_bytes(first),
        format_bytes(item.first_theory_bytes),
        format_bytes(second),
        format_bytes(item.second_theory_bytes),
        change,
    )


def traffic_block(pair: Pair) -> Block:
    """What a rank sends and waits for, by operation."""
    if not pair.traffic:
        return Block()
    a, b = pair.first, pair.second
    rows = []
    for item in pair.traffic:
        as_sent = "" if item.wire_op == item.op else f" (as {item.wire_op})"
        rows.append(
            (
                f"{item.op}{as_sent}".replace("_", " "),
                format_bytes(item.first_wire_bytes),
                format_bytes(item.second_wire_bytes),
                format_duration(item.first_exposed_ns),
                format_duration(item.second_exposed_ns),
            )
        )
    return Block(
        title="Communication of a rank in a step",
        headings=("operation", f"{a} sent", f"{b} sent", f"{a} exposed", f"{b} exposed"),
        rows=tuple(rows),
        right=frozenset({1, 2, 3, 4}),
    )


def exchanges_block(pair: Pair) -> Block:
    """What was asked for in all, with the closed form of each side."""
    if not pair.exchanges:
        return Block()
    return Block(
        title="Payload of a rank in a step",
        headings=("exchange", pair.first, "theory", pair.second, "theory"),
        rows=tuple(
            (
                item.exchange.value,
                format_bytes(item.first_logical_bytes),
                format_bytes(item.first_theory_bytes),
                format_bytes(item.second_logical_bytes),
                format_bytes(item.second_theory_bytes),
            )
            for item in pair.exchanges
        ),
        right=frozenset({1, 2, 3, 4}),
    )


def operators_block(pair: Pair) -> Block:
    """The operators or kernels that moved most."""
    if not pair.operators:
        return Block()
    what = "kernel" if pair.operators[0].kernel else "operator"
    rows = [
        (
            shortened(item.name, LONGEST_OPERATOR),
            format_count(item.first_calls),
            format_count(item.second_calls),
            format_duration(item.first_ns),
            format_duration(item.second_ns),
            _signed_duration(item.delta_ns),
        )
        for item in pair.operators
    ]
    a, b = pair.first, pair.second
    return Block(
        title=f"{what.capitalize()}s that moved most, a step of the profiled window",
        headings=(what, f"{a} calls", f"{b} calls", f"{a} own", f"{b} own", "difference"),
        rows=tuple(rows),
        right=frozenset({1, 2, 3, 4, 5}),
    )


def losses_block(comparison: Comparison, pair: Pair) -> Block:
    """Where the losses part, and both curves."""
    losses = pair.losses
    if losses is None:
        return Block()
    rows = []
    lines = [
        next(run for run in comparison.runs if run.side == side)
        for side in (pair.first, pair.second)
    ]
    ends = [value for line in lines for value in line.loss_outline if value - value == 0]
    for line, last in zip(lines, (losses.last_first, losses.last_second), strict=True):
        curve = sparkline(line.loss_outline, low=min(ends, default=0), high=max(ends, default=1))
        rows.append((line.side, curve, format_number(last)))
    return Block(
        title="Losses",
        headings=("", "loss over the run", f"step {losses.last_common_step}"),
        rows=tuple(rows),
        right=frozenset({2}),
        below=tuple(_parting(pair)),
    )


def _parting(pair: Pair) -> Iterator[str]:
    losses = pair.losses
    assert losses is not None
    common = format_exact(losses.common_steps)
    if losses.first_unequal_step is None:
        yield f"Equal to the bit in all {common} common steps."
        return
    yield (
        f"Equal to the bit in {format_exact(losses.equal_steps)} of {common} common steps; "
        f"they part in step {losses.first_unequal_step}."
    )
    if losses.first_apart_step is None:
        yield "Never apart by more than 1 %."
    else:
        yield f"Apart by more than 1 % from step {losses.first_apart_step}."
