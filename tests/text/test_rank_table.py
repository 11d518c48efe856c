"""The table of ranks beside the facts that it is made of."""

from probe.text.rank_table import rank_block
from tests.figures.drawn_run import drawn_run


def test_ranks_stand_by_their_own_time_with_the_straggler_named() -> None:
    facts = drawn_run(ranks=4, steps=60).facts
    block = rank_block(facts)
    assert facts.balance is not None
    assert facts.waiting is not None
    assert block.rows[0][0] == "2"
    assert len(block.rows) == 4
    assert block.headings[-2:] == ("waited", "came last")
    assert {len(row) for row in block.rows} == {len(block.headings)}
    assert block.below[0].startswith("Rank 2 holds the others up by")
    assert "slow compute" in block.below[0]


def test_one_rank_has_nobody_to_wait_for() -> None:
    assert not rank_block(drawn_run(ranks=1, steps=30).facts).rows
