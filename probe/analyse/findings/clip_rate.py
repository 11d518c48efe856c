"""Clipping binds in most steps: it has become a part of the learning rate.

Condition: at least 20 applied steps, and more than half of them were clipped.
"""

from probe.analyse.findings.finding import Change, Evidence, Finding, Gain, GainKind, Link, View
from probe.analyse.run_facts import RunFacts
from probe.units import format_count, format_number, format_percent

LEAST_STEPS = 20
LEAST_SHARE = 0.5


def find(facts: RunFacts) -> Finding | None:
    """How often and how strongly."""
    clip = facts.clipping
    if clip is None or clip.steps < LEAST_STEPS or clip.share <= LEAST_SHARE:
        return None
    limit = facts.manifest.config.settings.get("clip_norm")
    changes = [Change(setting="--lr", why="Lower it by about the median factor of clipping.")]
    if isinstance(limit, int | float) and limit > 0 and clip.median_coefficient:
        usual = limit / clip.median_coefficient
        changes.append(
            Change(setting=f"--clip {usual:.2g}", why="That is what a usual clipped norm is.")
        )
    return Finding(
        id="clip-rate",
        title=f"Clipping binds in {format_percent(clip.share)} of the steps.",
        evidence=(
            Evidence(name="clipped", value=f"{format_count(clip.clipped)} of {clip.steps:,} steps"),
            Evidence(name="median factor", value=format_number(clip.median_coefficient)),
            Evidence(name="limit", value=format_number(limit)),
        ),
        changes=tuple(changes),
        gain=Gain(
            kind=GainKind.TRUST,
            share=0.0,
            how="no time; the optimizer takes the steps that the learning rate asks for",
        ),
        link=Link(view=View.STEPS),
    )
