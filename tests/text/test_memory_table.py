"""The ledger as a table: what there is to say of a run, and no columns of nothing."""

from types import SimpleNamespace
from typing import Any

from probe.analyse.memory.theory import memory_beside_theory
from probe.analyse.memory.use import MemoryPeak, MemoryUse
from probe.schema.documents import Manifest
from probe.schema.vocabulary import MemoryCategory, Tier
from probe.text.memory_table import memory_block


def block_of(fragmented_bytes: int | None) -> Any:
    """Of a run that tells no model, so that there is no closed form."""
    peak = MemoryPeak(
        rank=0,
        step=3,
        peak_bytes=100,
        from_allocator=fragmented_bytes is not None,
        held_bytes={(Tier.DEVICE, MemoryCategory.PARAMS): 100},
        unaccounted_bytes=0,
        fragmented_bytes=fragmented_bytes,
    )
    memory = MemoryUse(
        peak=peak,
        rank_peak_bytes={0: 100},
        imbalance=None,
        allocator_retries=None,
        peak_rss_bytes=None,
        capacity_bytes=None,
    )
    lines = memory_beside_theory(peak, Manifest())
    facts: Any = SimpleNamespace(memory=memory, memory_lines=lines)
    return memory_block(facts)


def test_without_a_closed_form_three_columns_say_it_all() -> None:
    block = block_of(None)
    assert block.headings == ("memory", "tier", "measured")
    assert block.rows == (("params", "device", "100 B"),)


def test_what_lies_outside_keeps_its_name_without_a_closed_form() -> None:
    block = block_of(50)
    assert len(block.headings) == 6
    assert block.rows[-1] == ("outside", "device", "50 B", "–", "", "fragmentation")
