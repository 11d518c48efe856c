"""Steps were skipped in a precision that has no loss scale, where nobody expects it.

Condition: at least one step skipped in fp32 or bf16. In fp16 an overflow is the scale's affair;
here it is a gradient that is infinite or no number, or no gradient at all.
"""

from probe.analyse.findings.finding import Change, Evidence, Finding, Gain, GainKind, Link, View
from probe.analyse.findings.scaling import scales_loss
from probe.analyse.run_facts import RunFacts
from probe.units import format_count, format_percent


def find(facts: RunFacts) -> Finding | None:
    """How many, and what was wrong."""
    skips, precision = facts.skips, facts.manifest.config.precision
    total = skips.overflows + skips.without_gradient
    if precision is None or scales_loss(facts.manifest) or not total:
        return None
    evidence = [
        Evidence(name="skipped", value=f"{format_count(total)} of {format_count(skips.recorded)}"),
        Evidence(name="without a gradient", value=format_count(skips.without_gradient)),
        Evidence(name="time lost", value=format_percent(skips.lost_time_share)),
    ]
    if facts.origins:
        first = facts.origins[0]
        evidence.append(Evidence(name="began in", value=f"{first.name} ({', '.join(first.kinds)})"))
    streak = skips.longest_streak
    return Finding(
        id="silent-skips",
        title=f"{total:,} step{'s' if total > 1 else ''} did not change the model, in {precision}.",
        evidence=tuple(evidence),
        changes=(
            Change(setting="--lr", why="A learning rate too high is the commonest cause."),
            Change(setting="--clip 1.0", why="It bounds what a single batch can do."),
        ),
        gain=Gain(
            kind=GainKind.TIME,
            share=skips.lost_time_share,
            how="time of the skipped steps over the time of all steps",
        ),
        link=Link(
            view=View.PRECISION,
            first_step=streak.first_step if streak else None,
            last_step=streak.last_step if streak else None,
        ),
    )
