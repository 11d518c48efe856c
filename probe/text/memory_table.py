"""The peak of the fullest rank, category by category, beside the closed form."""

from rich.text import Text

from probe.analyse.memory.theory import Beside, Residual
from probe.analyse.memory.use import MemoryUse
from probe.analyse.run_facts import RunFacts
from probe.text.aligned import align, with_heading
from probe.text.comparison_blocks import Block
from probe.units import MISSING, format_bytes, format_exact, format_percent


def memory_table(facts: RunFacts) -> list[Text]:
    """What was held, what the closed form says, and the name of the difference."""
    block = memory_block(facts)
    if not block.rows:
        return []
    lines = with_heading(align([block.headings, *block.rows], right=tuple(block.right)), "dim")
    return [*lines, *(Text(remark, style="dim") for remark in block.below)]


def memory_block(facts: RunFacts) -> Block:
    """The same as plain texts, for whoever draws tables otherwise."""
    memory = facts.memory
    if memory is None or not facts.memory_lines:
        return Block()
    headings: tuple[str, ...] = ("memory", "tier", "measured", "theory", "residual", "")
    rows = [_row(line) for line in facts.memory_lines]
    if all(row[3:] == (MISSING, "", "") for row in rows):
        # Neither a closed form nor a name for what is left: three columns of nothing.
        headings, rows = headings[:3], [row[:3] for row in rows]
    return Block(
        headings=headings,
        rows=tuple(rows),
        right=frozenset({2, 3, 4}),
        below=(_remark(memory),),
    )


def _row(line: Beside) -> tuple[str, ...]:
    known = line.theory_bytes is not None
    named = line.residual is not Residual.NONE
    return (
        line.category.value if line.category else "outside",
        line.tier.value,
        format_bytes(line.measured_bytes),
        format_bytes(line.theory_bytes),
        format_bytes(line.residual_bytes) if known and named else "",
        line.residual.value if named else "",
    )


def _remark(memory: MemoryUse) -> str:
    peak = memory.peak
    source = "by the allocator" if peak.from_allocator else "by the ledger"
    remark = (
        f"peak {format_bytes(peak.peak_bytes)} {source} on rank {peak.rank} "
        f"in step {format_exact(peak.step)}"
    )
    if memory.headroom_bytes is not None and memory.capacity_bytes:
        free = format_percent(memory.headroom_bytes / memory.capacity_bytes)
        remark += f"; {format_bytes(memory.headroom_bytes)} free ({free})"
    return remark
