"""What a usual step moved between the device and where states rest, route by route."""

from rich.text import Text

from probe.analyse.offload import OffloadTraffic, Route
from probe.analyse.run_facts import RunFacts
from probe.text.aligned import align, with_heading
from probe.text.comparison_blocks import Block
from probe.units import MISSING, format_bytes, format_duration, format_percent

_HEADINGS = ("offload", "tier", "direction", "a step", "rate", "busy", "exposed", "depth")


def offload_table(facts: RunFacts) -> list[Text]:
    """Most exposed first; where host and device are one memory, that is said instead of a rate."""
    block = offload_block(facts)
    if not block.rows:
        return []
    lines = with_heading(align([block.headings, *block.rows], right=tuple(block.right)), "dim")
    return [*lines, *(Text(remark, style="dim") for remark in block.below)]


def offload_block(facts: RunFacts) -> Block:
    """The same as plain texts, for whoever draws tables otherwise."""
    traffic = facts.offload
    if traffic is None:
        return Block()
    return Block(
        headings=_HEADINGS,
        rows=tuple(_row(route) for route in traffic.routes),
        right=frozenset({3, 4, 5, 6, 7}),
        below=(_remark(traffic),),
    )


def _row(route: Route) -> tuple[str, ...]:
    rate = route.bytes_per_s
    return (
        route.category,
        route.tier,
        route.direction,
        format_bytes(route.moved_bytes),
        MISSING if rate is None else f"{format_bytes(rate)}/s",
        "" if rate is None else format_duration(route.busy_ns),
        "" if rate is None else format_duration(route.exposed_ns),
        "" if route.queue_depth is None else str(route.queue_depth),
    )


def _remark(traffic: OffloadTraffic) -> str:
    parts = []
    if traffic.busy_ns:
        hidden = format_percent(traffic.hidden_share)
        parts.append(f"{hidden} of the transfers' time is hidden under compute")
    if any(not route.busy_ns for route in traffic.routes):
        parts.append("no rate: device and host are the same memory, so nothing is copied")
    return "; ".join(parts)
