"""Compute stands still for offload.

Condition: more than 10 % of the step is exposed transfers between the device and another tier,
and `cost` finds that worth telling.
"""

from probe.analyse.findings.cost import cost_of_exposed
from probe.analyse.findings.finding import Change, Evidence, Finding, Gain, GainKind, Link, View
from probe.analyse.run_facts import RunFacts
from probe.schema.vocabulary import MemoryCategory, Tier
from probe.units import format_bytes, format_duration, format_percent

LEAST_SHARE = 0.10


def find(facts: RunFacts) -> Finding | None:
    """How much, and on which route most."""
    offload = facts.offload
    if offload is None:
        return None
    share = cost_of_exposed(offload.routes).share_of(facts, least_share=LEAST_SHARE)
    if share is None:
        return None
    worst = offload.routes[0]
    block = "offload_param" if worst.category == MemoryCategory.PARAMS else "offload_optimizer"
    path = f"zero_optimization.{block}"
    changes = [
        Change(setting="--offload none", why="If the device has room, nothing need be moved."),
        Change(setting="--accumulate", why="More micro-batches for each update that is moved."),
    ]
    if worst.tier == Tier.DISK:
        if block == "offload_optimizer":
            pipelines = f"{path}.pipeline_read: true, {path}.pipeline_write: true"
            why = "The disk would work during the update."
            changes.insert(0, Change(setting=pipelines, why=why))
        changes.append(Change(setting="--offload-to cpu", why="Host memory is faster than disk."))
    else:
        pinned = Change(setting=f"{path}.pin_memory: true", why="Pinned copies run in the back.")
        changes.insert(0, pinned)
    rate = worst.bytes_per_s
    return Finding(
        id="offload-bound",
        title=f"{format_percent(share)} of the step waits for offload.",
        evidence=(
            Evidence(name="exposed a step", value=format_duration(offload.exposed_ns)),
            Evidence(name="moved a step", value=format_bytes(offload.moved_bytes)),
            Evidence(
                name="most of it",
                value=f"{worst.category}, {worst.direction} {worst.tier}, {format_bytes(rate)}/s"
                if rate
                else worst.category,
            ),
            Evidence(name="hidden under compute", value=format_percent(offload.hidden_share)),
        ),
        changes=tuple(changes),
        gain=Gain(
            kind=GainKind.TIME, share=share, how="exposed time of the transfers over step time"
        ),
        link=Link(view=View.OFFLOAD),
    )
