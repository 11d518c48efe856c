"""The allocator reserves far more than it hands out, or had to flush its cache to go on.

Condition: at the peak more than 20 % of what is reserved, and more than 64 MiB, is not allocated;
or an allocation had to be retried.
"""

from probe.analyse.findings.finding import Change, Evidence, Finding, Gain, GainKind, Link, View
from probe.analyse.run_facts import RunFacts
from probe.units import format_bytes, format_count, format_percent

LEAST_SHARE = 0.20
LEAST_BYTES = 64 << 20
"""Three of the segments that the allocator takes for middling tensors: a small model always has
that much of them to spare."""


def find(facts: RunFacts) -> Finding | None:
    """How much is reserved in vain."""
    memory = facts.memory
    if memory is None or memory.peak.fragmented_bytes is None:
        return None
    idle = memory.peak.fragmented_bytes
    reserved = memory.peak.peak_bytes + idle
    share = idle / reserved if reserved else 0.0
    retries = memory.allocator_retries or 0
    loose = share > LEAST_SHARE and idle > LEAST_BYTES
    if not loose and not retries:
        return None
    return Finding(
        id="fragmentation",
        title=f"{format_percent(share)} of the reserved memory is not allocated at the peak."
        if loose
        else f"The allocator had to flush its cache {format_count(retries)} times to go on.",
        evidence=(
            Evidence(name="reserved", value=format_bytes(reserved)),
            Evidence(name="allocated", value=format_bytes(memory.peak.peak_bytes)),
            Evidence(name="retried allocations", value=format_count(retries)),
        ),
        changes=(
            Change(
                setting="PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
                why="Segments that grow leave no holes between blocks of different sizes.",
            ),
        ),
        gain=Gain(
            kind=GainKind.MEMORY, share=share, how="reserved and not allocated, over reserved"
        ),
        link=Link(view=View.MEMORY, first_step=memory.peak.step, last_step=memory.peak.step),
    )
