"""Activations are computed twice although memory would hold them.

Condition: recomputed forwards take more than 10 % of the step, which `cost` finds worth telling,
and it is not known that memory is short (less than 10 % of the device free).
"""

from probe.analyse.findings.cost import cost_of_steps
from probe.analyse.findings.finding import Change, Evidence, Finding, Gain, GainKind, Link, View
from probe.analyse.run_facts import RunFacts
from probe.units import MISSING, format_bytes, format_percent

LEAST_SHARE = 0.10
LEAST_FREE = 0.10


def find(facts: RunFacts) -> Finding | None:
    """What recomputation costs and what is free."""
    memory = facts.memory
    share = cost_of_steps(facts.counted.recompute_ns).share_of(facts, least_share=LEAST_SHARE)
    if share is None:
        return None
    free = memory.headroom_bytes if memory else None
    capacity = memory.capacity_bytes if memory else None
    if free is not None and capacity and free < LEAST_FREE * capacity:
        return None
    every = facts.manifest.config.settings.get("activations.every_block")
    sparser = (every if isinstance(every, int) and every > 0 else 1) * 2
    return Finding(
        id="recomputation-cost",
        title=f"{format_percent(share)} of the step computes activations a second time.",
        evidence=(
            Evidence(name="recomputation", value=f"{format_percent(share)} of the step"),
            Evidence(name="memory free", value=MISSING if free is None else format_bytes(free)),
        ),
        changes=(
            Change(
                setting=f"activation_checkpointing.every_block: {sparser}",
                why="Half as many blocks would be computed twice.",
            ),
            Change(
                setting="activation_checkpointing.every_block: 0",
                why="None would, if all activations fit.",
            ),
        ),
        gain=Gain(
            kind=GainKind.TIME, share=share, how="time of recomputed forwards over step time"
        ),
        link=Link(view=View.STEPS),
    )
