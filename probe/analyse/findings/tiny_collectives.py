"""Many collectives of few bytes: latency is paid for each of them.

Condition: one operation is called at least 20 times a step with less than 256 KiB a call, and these
calls expose more than 1 % of the step, which `cost` finds worth telling.
"""

from probe.analyse.findings.cost import cost_of_exposed
from probe.analyse.findings.finding import Change, Evidence, Finding, Gain, GainKind, Link, View
from probe.analyse.run_facts import RunFacts
from probe.schema.vocabulary import CollectiveOp
from probe.units import format_bytes, format_count, format_duration, format_percent

LEAST_CALLS = 20
MOST_BYTES = 256 << 10
LEAST_SHARE = 0.01


def find(facts: RunFacts) -> Finding | None:
    """The operation with the most such time."""
    comm = facts.communication
    if comm is None:
        return None
    tiny = [
        item
        for item in comm.operations
        if item.calls >= LEAST_CALLS and (item.bytes_per_call or MOST_BYTES) < MOST_BYTES
    ]
    share = cost_of_exposed(tiny).share_of(facts, least_share=LEAST_SHARE)
    if share is None:
        return None
    worst = tiny[0]
    gathers = worst.op == CollectiveOp.ALL_GATHER
    setting = "stage3_param_persistence_threshold" if gathers else "reduce_bucket_size"
    why = (
        "Small parameters stay gathered, and units become larger."
        if gathers
        else "More gradients leave together."
    )
    return Finding(
        id="tiny-collectives",
        title=f"{worst.calls:,.0f} calls of {worst.op} a step carry "
        f"{format_bytes(worst.bytes_per_call)} each.",
        evidence=(
            Evidence(name="calls a step", value=format_count(round(worst.calls))),
            Evidence(name="bytes a call", value=format_bytes(worst.bytes_per_call)),
            Evidence(name="time a call", value=format_duration(worst.busy_ns / worst.calls)),
            Evidence(name="exposed", value=f"{format_percent(share)} of the step"),
        ),
        changes=(Change(setting=f"zero_optimization.{setting}: larger", why=why),),
        gain=Gain(
            kind=GainKind.TIME,
            share=share,
            how="exposed time of these calls over step time, if latency were all of it",
        ),
        link=Link(view=View.COMMUNICATION),
    )
