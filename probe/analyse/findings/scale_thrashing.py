"""The loss scale goes up only to come down again: steps keep overflowing long after the start.

Condition: after start-up at least three separate streaks of overflows, which skip more than 2 % of
the steps. A scale that is doubled every 1,000 steps to feel for its limit skips some 0.2 %.
"""

from probe.analyse.findings.finding import Change, Evidence, Finding, Gain, GainKind, Link, View
from probe.analyse.findings.scaling import scales_dynamically
from probe.analyse.run_facts import RunFacts
from probe.units import format_count, format_percent

LEAST_STREAKS = 3
LEAST_SHARE = 0.02


def find(facts: RunFacts) -> Finding | None:
    """What was skipped after start-up."""
    skips = facts.skips
    later = [streak for streak in skips.streaks if not streak.startup]
    if not scales_dynamically(facts.manifest):
        return None
    if len(later) < LEAST_STREAKS or skips.later_overflow_share <= LEAST_SHARE:
        return None
    share = format_percent(skips.later_overflow_share)
    settings = facts.manifest.config.settings
    window = settings.get("precision.loss_scale.window_steps")
    changes = [Change(setting="--bf16", why="It has the range of fp32 and needs no loss scale.")]
    if settings.get("precision.loss_scale.consecutive_hysteresis"):
        changes.insert(
            0,
            Change(
                setting="fp16.consecutive_hysteresis: false",
                why="Each good step refills the hysteresis, so that the scale never comes down.",
            ),
        )
    elif isinstance(window, int):
        changes.append(
            Change(
                setting=f"fp16.loss_scale_window: {4 * window}",
                why="The scale is raised again before the cause has passed.",
            )
        )
    return Finding(
        id="scale-thrashing",
        title=f"{share} of the steps after start-up overflow, in {len(later):,} streaks.",
        evidence=(
            Evidence(name="overflows after start-up", value=format_count(skips.later_overflows)),
            Evidence(name="share of the steps", value=share),
            Evidence(name="streaks", value=format_count(len(later))),
            Evidence(name="scale raised", value=format_count(facts.scale.raised))
            if facts.scale
            else Evidence(name="scale", value="not recorded"),
        ),
        changes=tuple(changes),
        gain=Gain(
            kind=GainKind.TIME,
            share=skips.later_lost_share,
            how="time of the steps skipped after start-up over the time of all steps",
        ),
        link=Link(
            view=View.PRECISION, first_step=later[0].first_step, last_step=later[-1].last_step
        ),
    )
