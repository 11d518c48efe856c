"""The run began with skipped steps only because its first loss scale was too high.

Condition: at least three overflows before the run had settled, at a scale below the first one. Two
or fewer are what it costs to feel for the limit.
"""

from math import log2

from probe.analyse.findings.finding import Change, Evidence, Finding, Gain, GainKind, Link, View
from probe.analyse.findings.scaling import scales_dynamically
from probe.analyse.run_facts import RunFacts
from probe.units import format_count, format_duration, format_scale

LEAST_OVERFLOWS = 3


def find(facts: RunFacts) -> Finding | None:
    """What start-up cost, and the power of two that would have avoided it."""
    scale, skips = facts.scale, facts.skips
    if scale is None or not scales_dynamically(facts.manifest):
        return None
    power, first = scale.recommended_initial_power, scale.stretches[0].scale
    if power is None or skips.startup_overflows < LEAST_OVERFLOWS or 2.0**power >= first:
        return None
    if facts.gradients and facts.gradients.safe_scale_power is not None:
        power = min(power, facts.gradients.safe_scale_power)
    started = f"2^{log2(first):.4g}"
    return Finding(
        id="initial-scale-too-high",
        title=f"The first {skips.startup_overflows} overflows come from starting at {started}.",
        evidence=(
            Evidence(name="initial scale", value=format_scale(first)),
            Evidence(name="settled at", value=format_scale(scale.settled_scale)),
            Evidence(name="overflows until then", value=format_count(skips.startup_overflows)),
            Evidence(name="time lost", value=format_duration(skips.startup_lost_ns)),
        ),
        changes=(
            Change(
                setting=f"fp16.initial_scale_power: {power}",
                why=f"At 2^{power} nothing would have overflowed at the start.",
            ),
        ),
        gain=Gain(
            kind=GainKind.TIME,
            share=skips.startup_lost_share,
            how="time of the steps skipped at the start over the time of all steps",
        ),
        link=Link(
            view=View.PRECISION,
            first_step=scale.stretches[0].first_step,
            last_step=scale.settled_step,
        ),
    )
