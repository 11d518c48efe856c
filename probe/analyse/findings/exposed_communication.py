"""Compute stands still for communication.

Condition: more than 10 % of the step is exposed communication, and `cost` finds that worth telling.
Gathers of stage 3 are left out: those have a rule of their own.
"""

from probe.analyse.findings.cost import cost_of_exposed
from probe.analyse.findings.finding import Change, Evidence, Finding, Gain, GainKind, Link, View
from probe.analyse.findings.gathers import is_prefetched
from probe.analyse.run_facts import RunFacts
from probe.schema.vocabulary import CollectiveOp
from probe.units import format_bytes, format_duration, format_percent

LEAST_SHARE = 0.10


def find(facts: RunFacts) -> Finding | None:
    """How much, and in which operation most."""
    comm = facts.communication
    if comm is None:
        return None
    operations = [item for item in comm.operations if not is_prefetched(item, facts.manifest)]
    cost = cost_of_exposed(operations)
    share = cost.share_of(facts, least_share=LEAST_SHARE)
    if share is None:
        return None
    worst = operations[0]
    busy_ns = sum(item.busy_ns for item in operations)
    evidence = [
        Evidence(name="exposed a step", value=format_duration(cost.ns)),
        Evidence(
            name="hidden under compute",
            value=format_percent(1 - cost.ns / busy_ns if busy_ns else None),
        ),
        Evidence(
            name="most of it",
            value=f"{worst.op} in {worst.phase}, {format_duration(worst.exposed_ns)}",
        ),
        Evidence(name="sent a step", value=format_bytes(comm.wire_bytes)),
    ]
    if facts.waiting is not None:
        waited = format_percent(facts.waiting.waiting_share)
        evidence.append(Evidence(name="of collectives, waiting for peers", value=waited))
    return Finding(
        id="exposed-communication",
        title=f"{format_percent(share)} of the step waits for communication.",
        evidence=tuple(evidence),
        changes=tuple(_changes(facts, worst.op)),
        gain=Gain(
            kind=GainKind.TIME,
            share=share,
            how="exposed over step time: what hiding or sparing all of it would bring",
        ),
        link=Link(view=View.COMMUNICATION),
    )


def _changes(facts: RunFacts, op: str) -> list[Change]:
    config = facts.manifest.config
    changes = []
    if config.settings.get("zero.overlap_communication") is False:
        changes.append(
            Change(
                setting="zero_optimization.overlap_comm: true",
                why="Gradients would be reduced while backward still runs.",
            )
        )
    accumulate = f"--accumulate {2 * (config.accumulation_steps or 1)}"
    if config.stage is not None and config.stage >= 2:
        why = "Stage 1 exchanges gradients once a step; stages 2 and 3 for every micro-batch."
        changes.append(Change(setting=f"{accumulate} --stage 1", why=f"{why} If memory allows."))
    else:
        changes.append(Change(setting=accumulate, why="Twice the compute for each exchange."))
    if op in (CollectiveOp.REDUCE_SCATTER, CollectiveOp.ALL_REDUCE):
        changes.append(
            Change(
                setting="zero_optimization.reduce_bucket_size: smaller",
                why="Smaller buckets leave earlier; the last one is what stays exposed.",
            )
        )
    return changes
