"""What a rank exchanges in a usual step, by operation and phase."""

from rich.text import Text

from probe.analyse.communication.theory import TrafficBeside, TrafficResidual
from probe.analyse.communication.use import OperationTraffic
from probe.analyse.run_facts import RunFacts
from probe.text.aligned import align, with_heading
from probe.text.comparison_blocks import Block
from probe.text.printable import printable
from probe.units import (
    MISSING,
    format_bytes,
    format_count,
    format_duration,
    format_percent,
    format_ratio,
)

MOST_ROWS = 12
LEAST_EXCESS = 0.02
"""Wire volume this near to the true one is the true one."""


def communication_table(facts: RunFacts) -> list[Text]:
    """Most exposed first; nothing if the ranks exchanged nothing."""
    block = communication_block(facts)
    if not block.rows:
        return []
    lines = with_heading(align([block.headings, *block.rows], right=tuple(block.right)), "dim")
    return [*lines, *(Text(remark, style="dim", overflow="fold") for remark in block.below)]


def communication_block(facts: RunFacts, *, most: int = MOST_ROWS) -> Block:
    """The same as plain texts, for whoever draws tables otherwise."""
    comm = facts.communication
    if comm is None:
        return Block()
    remarks = [_remark(line) for line in facts.traffic_lines]
    if comm.busy_ns:
        remarks.append(
            f"{format_percent(comm.exposed_step_share)} of the step is exposed; "
            f"{format_percent(comm.overlap_share)} of the busy time is hidden"
        )
    if facts.waiting is not None:
        waits = facts.waiting
        remarks.append(
            f"{format_percent(waits.waiting_share)} of {waits.collectives:,} timed collectives "
            f"is waiting for peers, least by rank {waits.least_waiting_rank}"
        )
    return Block(
        headings=("operation", "phase", "calls", "payload", "busy", "exposed", "busbw"),
        rows=tuple(_row(item) for item in comm.operations[:most]),
        right=frozenset({2, 3, 4, 5, 6}),
        below=tuple(remarks),
    )


def _row(item: OperationTraffic) -> tuple[str, ...]:
    rate = item.busbw_bytes_per_s
    return (
        printable(item.op, limit=14),
        printable(item.phase, limit=12),
        format_count(float(f"{item.calls:.3g}")),
        format_bytes(round(item.logical_bytes)),
        format_duration(item.busy_ns),
        format_duration(item.exposed_ns),
        MISSING if rate is None else f"{format_bytes(rate)}/s",
    )


def _remark(line: TrafficBeside) -> str:
    said = f"{line.exchange}: {format_bytes(round(line.logical_bytes))} asked for"
    if line.residual is TrafficResidual.NONE:
        said += ", as the closed form says"
    else:
        theory = format_bytes(line.theory_logical_bytes)
        said += f", closed form {theory} ({line.residual})"
    if line.resident_bytes:
        said += f", {format_bytes(round(line.resident_bytes))} of it resident and gathered once"
    if line.wire_excess is not None and abs(line.wire_excess - 1) > LEAST_EXCESS:
        by = ", ".join(printable(name, limit=14) for name in line.replaced_by)
        how = f"as {by} it" if by else "it"
        said += f"; {how} sent {format_ratio(line.wire_excess)} the true volume"
    return said
