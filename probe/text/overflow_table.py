"""Overflow events as a table: what went wrong, where and when."""

from probe.analyse.series.overflow_events import OverflowEvent, OverflowEvents
from probe.text.comparison_blocks import Block
from probe.text.printable import printable
from probe.units import MISSING, format_exact, format_percent, format_scale


def overflow_block(found: OverflowEvents) -> Block:
    """One row a tensor; empty where nothing overflowed."""
    events = found.events
    if not events:
        return Block()
    left = found.total - len(events)
    return Block(
        title="Tensors that overflowed",
        headings=(
            *("step", "rank", "first", "what", "kind", "parameter", "module"),
            *("micro-batch", "bad elements", "loss scale"),
        ),
        rows=tuple(_row(event) for event in events),
        right=frozenset({0, 1, 7, 8, 9}),
        below=(f"… and {left:,} more; `probe export` writes all of them.",) if left > 0 else (),
    )


def _row(event: OverflowEvent) -> tuple[str, ...]:
    return (
        str(event.step),
        str(event.rank),
        "first" if event.first else "",
        printable(event.role, limit=20),
        printable(event.kind, limit=20),
        printable(event.parameter or MISSING, limit=120),
        printable(event.module or MISSING, limit=120),
        MISSING if event.micro_batch is None else str(event.micro_batch),
        _bad(event),
        MISSING if event.loss_scale is None else format_scale(event.loss_scale),
    )


def _bad(event: OverflowEvent) -> str:
    if event.nonfinite_elements is None:
        return MISSING
    count = format_exact(event.nonfinite_elements)
    if not event.tensor_elements:
        return count
    return f"{count} ({format_percent(event.nonfinite_elements / event.tensor_elements)})"
