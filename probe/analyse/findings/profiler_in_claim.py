"""So many steps were profiled that what is said of time and memory rests on few.

Condition: steps were profiled, and fewer than 20 are left that count. Where none is left, as in a
run that is made of traces, nothing is claimed either.
"""

from probe.analyse.findings.finding import Change, Evidence, Finding, Gain, GainKind, Link, View
from probe.analyse.run_facts import RunFacts
from probe.analyse.steps.steps import Exclusion
from probe.units import format_count

ENOUGH_STEPS = 20


def find(facts: RunFacts) -> Finding | None:
    """How many steps are left."""
    profiled = facts.counted.excluded[Exclusion.PROFILED]
    left = len(facts.counted)
    if not profiled or not 0 < left < ENOUGH_STEPS:
        return None
    return Finding(
        id="profiler-in-claim",
        title=f"{profiled:,} of {facts.counted.recorded:,} steps were profiled; "
        f"what is said of time rests on {left:,}.",
        evidence=(
            Evidence(name="recorded", value=format_count(facts.counted.recorded)),
            Evidence(name="profiled", value=format_count(profiled)),
            Evidence(name="counted", value=format_count(left)),
        ),
        changes=(
            Change(setting="--profile-steps A:B", why="A window of three steps shows as much."),
            Change(
                setting="train more steps",
                why="The profiler disturbs time and memory of its steps.",
            ),
        ),
        gain=Gain(
            kind=GainKind.TRUST, share=0.0, how="no time; figures of time that can be relied on"
        ),
        link=Link(view=View.STEPS),
    )
