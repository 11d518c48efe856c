"""Overflows keep beginning in the same tensor: its layer is to blame, not the scale.

Condition: after start-up, at least three steps whose first offender was recorded, and one tensor
was it in at least 80 % of them. At start-up the tensor with the largest gradient is always first.
"""

from probe.analyse.findings.finding import Change, Evidence, Finding, Gain, GainKind, Link, View
from probe.analyse.findings.scaling import scales_loss
from probe.analyse.run_facts import RunFacts
from probe.units import format_percent

LEAST_STEPS = 3
LEAST_SHARE = 0.80


def find(facts: RunFacts) -> Finding | None:
    """The tensor, and in how many steps it was first."""
    settled = facts.scale.settled_step if facts.scale else None
    # A run that never settled has start-up only; one without a scale has none.
    if facts.scale is not None and settled is None:
        return None
    later = {
        origin: [step for step in origin.steps if settled is None or step >= settled]
        for origin in facts.origins
    }
    all_steps = {step for steps in later.values() for step in steps}
    if len(all_steps) < LEAST_STEPS:
        return None
    origin, steps = max(later.items(), key=lambda item: len(item[1]))
    share = len(steps) / len(all_steps)
    if share < LEAST_SHARE:
        return None
    changes = [
        Change(setting="--clip 1.0", why=f"If {origin.name} grows, bound what it is updated by."),
        Change(
            setting="--numerics-every 10",
            why="Its range is then recorded often enough to see it grow before it overflows.",
        ),
    ]
    if scales_loss(facts.manifest):
        changes.insert(0, Change(setting="--bf16", why="It has the range of fp32."))
    return Finding(
        id="overflow-in-one-tensor",
        title=f"{origin.name} is the first to overflow in {len(steps)} of {len(all_steps)} steps.",
        evidence=(
            Evidence(name="tensor", value=f"{origin.name} ({origin.role})"),
            Evidence(name="share of the overflows", value=format_percent(share)),
            Evidence(name="kind", value=", ".join(origin.kinds)),
            Evidence(name="ranks", value=", ".join(map(str, origin.ranks))),
            *(
                [Evidence(name="micro-batches", value=", ".join(map(str, origin.micro_batches)))]
                if origin.micro_batches
                else []
            ),
        ),
        changes=tuple(changes),
        gain=Gain(
            kind=GainKind.TIME,
            share=facts.skips.later_lost_share * share,
            how="time of the steps skipped after start-up, by the tensor's share of them",
        ),
        link=Link(view=View.PRECISION, first_step=min(steps), last_step=max(steps)),
    )
