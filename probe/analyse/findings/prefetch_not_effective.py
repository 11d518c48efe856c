"""Stage 3 gathers parameters when they are needed instead of before.

Condition: more than half of the time in gathers of forward and backward is exposed, and that is
more than 3 % of the step and worth telling (`cost`).
"""

from probe.analyse.findings.cost import cost_of_exposed
from probe.analyse.findings.finding import Change, Evidence, Finding, Gain, GainKind, Link, View
from probe.analyse.findings.gathers import is_prefetched
from probe.analyse.run_facts import RunFacts
from probe.units import format_bytes, format_count, format_duration, format_percent

LEAST_EXPOSED = 0.5
LEAST_SHARE = 0.03


def find(facts: RunFacts) -> Finding | None:
    """How much of the gathering compute stood still for."""
    comm = facts.communication
    if comm is None:
        return None
    gathers = [item for item in comm.operations if is_prefetched(item, facts.manifest)]
    busy_ns = sum(item.busy_ns for item in gathers)
    cost = cost_of_exposed(gathers)
    share = cost.share_of(facts, least_share=LEAST_SHARE)
    waited = cost.ns / busy_ns if busy_ns else 0.0
    if share is None or waited <= LEAST_EXPOSED:
        return None
    calls = sum(item.calls for item in gathers)
    moved = sum(item.logical_bytes for item in gathers)
    ahead = facts.manifest.config.settings.get("zero.prefetch_elements")
    wanted = f": {2 * ahead}" if isinstance(ahead, int) and ahead else ": larger"
    return Finding(
        id="prefetch-not-effective",
        title=f"{format_percent(waited)} of the gathering of stage 3 is waited for.",
        evidence=(
            Evidence(name="exposed a step", value=format_duration(cost.ns)),
            Evidence(name="share of the step", value=format_percent(share)),
            Evidence(name="gathers a step", value=format_count(round(calls))),
            Evidence(name="bytes a gather", value=format_bytes(moved / calls if calls else None)),
            Evidence(name="fetched ahead, elements", value=format_count(ahead))
            if isinstance(ahead, int)
            else Evidence(name="fetched ahead", value="not recorded"),
        ),
        changes=(
            Change(
                setting=f"zero_optimization.stage3_prefetch_bucket_size{wanted}",
                why="The next unit must be on its way before this one is done.",
            ),
            Change(setting="--stage 2", why="It gathers once a step, if the memory allows."),
        ),
        gain=Gain(
            kind=GainKind.TIME, share=share, how="exposed time of the gathers over step time"
        ),
        link=Link(view=View.COMMUNICATION),
    )
