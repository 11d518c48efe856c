"""fp16 loses gradients that bf16 would keep.

Condition: in fp16, more than 1 % of the sampled gradient elements that are not zero become zero at
the scale in use, over all samples and in the median sampled step, and at least 1,000 of such
elements were looked at.
"""

from statistics import median

from probe.analyse.findings.finding import Change, Evidence, Finding, Gain, GainKind, Link, View
from probe.analyse.findings.scaling import scales_loss
from probe.analyse.run_facts import RunFacts
from probe.units import format_percent, format_scale

LEAST_UNDERFLOW = 0.01
LEAST_ELEMENTS = 1000
NAMED = 3


def find(facts: RunFacts) -> Finding | None:
    """How much underflows, and where most."""
    gradients = facts.gradients
    if gradients is None or not scales_loss(facts.manifest):
        return None
    share = gradients.together.underflow_share
    if share is None or share <= LEAST_UNDERFLOW or gradients.together.elements < LEAST_ELEMENTS:
        return None
    usual = median(fit.underflow_share or 0.0 for fit in gradients.by_step.values())
    if usual <= LEAST_UNDERFLOW:
        return None
    worst = [
        Evidence(name=name, value=format_percent(fit.underflow_share))
        for name, fit in list(gradients.by_parameter.items())[:NAMED]
        if fit.underflow_share
    ]
    scale = facts.scale.scale_now if facts.scale else None
    return Finding(
        id="bf16-advisable",
        title=f"{format_percent(share)} of the gradient elements vanish in fp16.",
        evidence=(
            Evidence(name="underflow", value=format_percent(share)),
            Evidence(name="subnormal", value=format_percent(gradients.together.subnormal_share)),
            Evidence(name="scale now", value=format_scale(scale)),
            *worst,
        ),
        changes=(
            Change(setting="--bf16", why="Its smallest numbers are those of fp32: none vanish."),
        ),
        gain=Gain(
            kind=GainKind.TRUST if not facts.skips.lost_ns else GainKind.TIME,
            share=facts.skips.lost_time_share,
            how="gradients that vanish teach nothing; bf16 also skips no step for its scale",
        ),
        link=Link(
            view=View.PRECISION,
            first_step=min(gradients.by_step),
            last_step=max(gradients.by_step),
        ),
    )
