"""Compute waits for the next batch.

Condition: more than 10 % of the time of the counted steps is spent in the phase data, and
`cost` finds that worth telling.
"""

from probe.analyse.findings.cost import cost_of_steps
from probe.analyse.findings.finding import Change, Evidence, Finding, Gain, GainKind, Link, View
from probe.analyse.run_facts import RunFacts
from probe.schema.vocabulary import Phase
from probe.units import format_duration, format_percent

LEAST_SHARE = 0.10


def find(facts: RunFacts) -> Finding | None:
    """How much of the step."""
    data = next((item for item in facts.phases if item.phase is Phase.DATA), None)
    if data is None:
        return None
    share = cost_of_steps(facts.counted.phase_ns[Phase.DATA]).share_of(
        facts, least_share=LEAST_SHARE
    )
    if share is None:
        return None
    return Finding(
        id="data-bound",
        title=f"{format_percent(share)} of the time is spent waiting for batches.",
        evidence=(
            Evidence(name="a usual step waits", value=format_duration(data.median_ns)),
            Evidence(name="share of all steps", value=format_percent(share)),
        ),
        changes=(
            Change(
                setting="DataLoader(num_workers=…, persistent_workers=True)",
                why="Batches would be made while the step before them runs.",
            ),
            Change(
                setting="DataLoader(prefetch_factor=4, pin_memory=True)",
                why="A stock of batches evens out those that take long.",
            ),
        ),
        gain=Gain(kind=GainKind.TIME, share=share, how="time of the phase over step time"),
        link=Link(view=View.STEPS),
    )
