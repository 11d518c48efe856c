"""Ranks stood still and waited for one that did not come.

Condition: the launcher saw at least one hang: no rank's heartbeat moved for longer than
`--hang-timeout`. The last one is told; each rank leaves an event of its own where it can.
"""

from collections.abc import Sequence

from probe.analyse.findings.finding import Change, Evidence, Finding, Gain, GainKind, Link, View
from probe.analyse.run_facts import RunFacts
from probe.schema.documents import Hang, Manifest
from probe.units import format_count, format_duration

MOST_RANKS = 8
LONGEST_MESSAGE = 300


def find(facts: RunFacts) -> Finding | None:
    """Who waited for whom, and for how long."""
    hangs = facts.manifest.hangs
    if not hangs:
        return None
    last = hangs[-1]
    stood = format_duration(last.still_s * 1e9)
    step = "" if last.step is None else f" in step {last.step:,}"
    subject = f"Rank {_ranks(last.awaited)} held" if last.awaited else "Something held"
    evidence = [
        Evidence(name="hangs", value=format_count(len(hangs))),
        Evidence(name="seen", value=last.message[:LONGEST_MESSAGE] or f"no move for {stood}"),
    ]
    return Finding(
        id="hang",
        title=f"{subject} the others up for {stood} or more{step}.",
        evidence=tuple(evidence),
        changes=(
            Change(
                setting=f"look at rank {_ranks(last.awaited)}" if last.awaited else "output.log",
                why="What it did instead of the collective: its output, its data, its node.",
            ),
            Change(setting="--hang-end", why="Ends such a run, so that it does not hold machines."),
        ),
        gain=Gain(
            kind=GainKind.TIME,
            share=_share(hangs, facts.manifest),
            how="time that was seen to pass without a move, over that of the run",
        ),
        link=Link(view=View.COMMUNICATION, first_step=last.step, last_step=last.step),
    )


def _ranks(ranks: Sequence[int]) -> str:
    more = len(ranks) - MOST_RANKS
    return ", ".join(map(str, ranks[:MOST_RANKS])) + (f", … {more:,} more" if more > 0 else "")


def _share(hangs: Sequence[Hang], manifest: Manifest) -> float:
    if manifest.started_ns is None or manifest.ended_ns is None:
        return 0.0
    lasted_s = (manifest.ended_ns - manifest.started_ns) / 1e9
    return min(1.0, sum(hang.still_s for hang in hangs) / lasted_s) if lasted_s > 0 else 0.0
