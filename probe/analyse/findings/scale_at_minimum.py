"""The loss scale lies on its floor and steps still overflow: no scale will help.

Condition: at least one overflow in a step that used the minimum scale, in a run that scales its
loss dynamically.
"""

from probe.analyse.findings.finding import Change, Evidence, Finding, Gain, GainKind, Link, View
from probe.analyse.findings.scaling import minimum_scale, scales_dynamically
from probe.analyse.run_facts import RunFacts
from probe.units import format_count, format_percent, format_scale


def find(facts: RunFacts) -> Finding | None:
    """What the run skipped at the floor."""
    floor = minimum_scale(facts.manifest)
    if not scales_dynamically(facts.manifest):
        return None
    streaks = [
        streak
        for streak in facts.skips.streaks
        if streak.scale_last is not None and streak.scale_last <= floor
    ]
    if not streaks:
        return None
    evidence = [
        Evidence(name="minimum scale", value=format_scale(floor)),
        Evidence(name="streaks that reach it", value=format_count(len(streaks))),
        Evidence(name="overflows in all", value=format_count(facts.skips.overflows)),
        Evidence(name="time lost to skips", value=format_percent(facts.skips.lost_time_share)),
    ]
    if facts.origins:
        evidence.append(Evidence(name="most often first", value=facts.origins[0].name))
    return Finding(
        id="scale-at-minimum",
        title=f"Steps still overflow at the minimum loss scale of {format_scale(floor)}.",
        evidence=tuple(evidence),
        changes=(
            Change(setting="--bf16", why="It has the range of fp32 and needs no loss scale."),
            Change(
                setting="--lr", why="A diverging run overflows at any scale: try a third of it."
            ),
        ),
        gain=Gain(
            kind=GainKind.TIME,
            share=facts.skips.lost_time_share,
            how="time of all skipped steps over the time of all steps",
        ),
        link=Link(
            view=View.PRECISION, first_step=streaks[0].first_step, last_step=streaks[-1].last_step
        ),
    )
