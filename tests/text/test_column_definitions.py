"""Every column of a table on a page says what it means."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from probe.analyse.compare.comparison import compare_runs
from probe.telling.run import open_readable, tell
from probe.text.column_definitions import COLUMN_DEFINITIONS, definition_of
from probe.text.communication_table import communication_block
from probe.text.comparison_blocks import Block, differences_block, measures_block, runs_block
from probe.text.comparison_parts import (
    exchanges_block,
    losses_block,
    memory_block,
    traffic_block,
    waterfall_block,
)
from probe.text.memory_table import memory_block as held_block
from probe.text.offload_table import offload_block
from probe.text.overflow_table import overflow_block
from probe.text.rank_table import rank_block
from probe.text.sorting import numbers_in
from probe.text.time_table import time_block
from tests.analyse.compared import made_run
from tests.figures.drawn_run import drawn_run

SAMPLES = Path(__file__).parents[2] / "sample_runs"
WITHOUT_WORDS = ""
"""The heading of a column of bars or of names beside a number."""


def blocks_of_a_run() -> Iterator[Block]:
    made = drawn_run(ranks=2, steps=60)
    for block in (time_block, held_block, communication_block, offload_block, rank_block):
        yield block(made.facts)
    yield overflow_block(made.series.overflows)


def blocks_of_a_recording() -> Iterator[Block]:
    """With a route that nobody times, since device and host are one memory."""
    yield offload_block(tell(open_readable(SAMPLES / "bf16-stage3-disk")).facts)


def blocks_of_a_comparison() -> Iterator[Block]:
    comparison = compare_runs([[made_run("one")], [made_run("two")]])
    (pair,) = comparison.pairs
    yield runs_block(comparison)
    yield losses_block(comparison, pair)
    yield differences_block(pair, whole=True)
    for block in (measures_block, waterfall_block, memory_block, traffic_block, exchanges_block):
        yield block(pair)


@pytest.mark.parametrize("blocks", [blocks_of_a_run, blocks_of_a_comparison])
def test_no_heading_is_left_unexplained(blocks) -> None:
    headings = {heading for block in blocks() for heading in block.headings}
    assert len(headings) > 10
    metrics = {"accuracy", "perplexity"}
    assert {name for name in headings if not definition_of(name)} <= {WITHOUT_WORDS, *metrics}


def test_a_side_is_named_and_its_column_explained() -> None:
    assert definition_of("B") == "Run B."
    assert definition_of("S27 exposed") == f"Run S27. {COLUMN_DEFINITIONS['exposed']}"
    assert definition_of("step 59") == "The loss in the last step that both runs have."
    assert definition_of("my own metric") == ""


def test_columns_that_end_flush_sort_as_numbers() -> None:
    for block in (*blocks_of_a_run(), *blocks_of_a_recording()):
        for place in block.right:
            column = [row[place] for row in block.rows]
            told = [cell for cell in column if cell not in ("", "–")]
            assert not told or numbers_in(column) is not None, (block.headings[place], column)
