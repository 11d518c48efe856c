"""Every so many steps one takes far longer.

Condition: spikes with a period, as `regularity` defines them, that take more than 3 % of the time
and each more than 0.1 ms.
"""

from probe.analyse.findings.cost import LEAST_NS
from probe.analyse.findings.finding import Change, Evidence, Finding, Gain, GainKind, Link, View
from probe.analyse.run_facts import RunFacts
from probe.schema.vocabulary import Phase
from probe.units import format_count, format_duration, format_percent

LEAST_SHARE = 0.03

_CHANGES = {
    Phase.CHECKPOINT: Change(
        setting="engine.save_checkpoint(…)", why="Save less often, or in the background."
    ),
    Phase.DATA: Change(
        setting="DataLoader(num_workers=…, prefetch_factor=…)",
        why="A stock of batches runs out with this period.",
    ),
}
_OTHERWISE = Change(
    setting="--profile-steps A:B", why="A window around one of these steps shows what it does."
)


def find(facts: RunFacts) -> Finding | None:
    """The period, what it costs and in which phase."""
    spikes = facts.regularity.spikes if facts.regularity else None
    if spikes is None or spikes.period_steps is None or spikes.excess_share <= LEAST_SHARE:
        return None
    if spikes.excess_ns <= LEAST_NS * len(spikes.steps):
        return None
    return Finding(
        id="periodic-spikes",
        title=f"Every {spikes.period_steps} steps one takes far longer, in {spikes.phase}.",
        evidence=(
            Evidence(name="spikes", value=format_count(len(spikes.steps))),
            Evidence(name="period", value=f"{spikes.period_steps} steps"),
            Evidence(name="time beyond the median", value=format_duration(spikes.excess_ns)),
            Evidence(name="share of the time", value=format_percent(spikes.excess_share)),
        ),
        changes=(_CHANGES.get(spikes.phase, _OTHERWISE),),
        gain=Gain(
            kind=GainKind.TIME,
            share=spikes.excess_share,
            how="time of these steps beyond the median, over the time of all steps",
        ),
        link=Link(view=View.STEPS, first_step=spikes.steps[0], last_step=spikes.steps[-1]),
    )
