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
            *("micro-batch", "bad elements", "of the tensor", "loss scale"),
        ),
        rows=tuple(_row(event) for event in events),
        right=frozenset({0, 1, 7, 8, 9, 10}),
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
        MISSING if event.nonfinite_elements is None else format_exact(event.nonfinite_elements),
        _share(event),
        MISSING if event.loss_scale is None else format_scale(event.loss_scale),
    )


def _share(event: OverflowEvent) -> str:
    if event.nonfinite_elements is None or not event.tensor_elements:
        return MISSING
    return format_percent(event.nonfinite_elements / event.tensor_elements)
