"""Ranks one below the other: what each does of its own, and how long it waits for others."""

from probe.analyse.run_facts import RunFacts
from probe.text.comparison_blocks import Block
from probe.units import MISSING, format_count, format_duration, format_percent


def rank_block(facts: RunFacts) -> Block:
    """The rank that takes longest first; empty for one rank, or where no step counts."""
    balance, waits = facts.balance, facts.waiting
    if balance is None:
        return Block()
    order = sorted(balance.own_ns, key=lambda rank: (-balance.own_ns[rank], rank))
    slow = balance.straggler
    below = ["Medians of a step; load is the mean of a step."]
    if slow is not None:
        below.insert(
            0,
            f"Rank {slow.rank} holds the others up by {format_duration(slow.excess_ns)} a step, "
            f"{format_percent(slow.step_share)} of it: {slow.cause}.",
        )
    headings = ["rank", "own time", "data", "in collectives"]
    if balance.load:
        headings.append(balance.load_unit)
    if waits is not None:
        headings += ["waited", "came last"]
        below.append(
            f"Waited and came last: in the {waits.collectives:,} collectives that were timed one "
            "by one."
        )
    rows = []
    for rank in order:
        row = [str(rank), format_duration(balance.own_ns[rank])]
        row += [
            format_duration(times[rank]) if rank in times else MISSING
            for times in (balance.data_ns, balance.busy_ns)
        ]
        if balance.load:
            row.append(format_count(balance.load.get(rank)))
        if waits is not None:
            row.append(format_duration(waits.waited_ns.get(rank)))
            row.append(format_percent(waits.last_share.get(rank)))
        rows.append(tuple(row))
    return Block(
        headings=tuple(headings),
        rows=tuple(rows),
        right=frozenset(range(len(headings))),
        below=tuple(below),
    )
