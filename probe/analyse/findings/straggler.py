"""One rank holds the others up.

Condition: a straggler as `steps.straggler` tells it from noise, and it costs more than 5 % of the
step.
"""

from probe.analyse.findings.finding import Change, Evidence, Finding, Gain, GainKind, Link, View
from probe.analyse.run_facts import RunFacts
from probe.analyse.steps.straggler import Cause
from probe.units import format_duration, format_percent

LEAST_SHARE = 0.05

_CHANGES = {
    Cause.SLOW_DATA: Change(
        setting="DataLoader(num_workers=…)",
        why="This rank waits for its batches: look at its storage and its worker processes.",
    ),
    Cause.SLOW_COMPUTE: Change(
        setting="CUDA_VISIBLE_DEVICES, OMP_NUM_THREADS",
        why="This rank computes longer: look for another process, heat, or a larger share of work.",
    ),
    Cause.SLOW_LINK: Change(
        setting="NCCL_SOCKET_IFNAME, GLOO_SOCKET_IFNAME",
        why="This rank's transfers take longer: look at its interface, cable and switch.",
    ),
}


def find(facts: RunFacts) -> Finding | None:
    """Which rank, and why."""
    balance = facts.balance
    if balance is None or balance.straggler is None:
        return None
    slow = balance.straggler
    if slow.step_share <= LEAST_SHARE:
        return None
    evidence = [
        Evidence(name="rank", value=str(slow.rank)),
        Evidence(name="cause", value=slow.cause),
        Evidence(name="longer than the others", value=f"{format_duration(slow.excess_ns)} a step"),
    ]
    if facts.waiting is not None:
        waits = facts.waiting
        evidence.append(
            Evidence(
                name="who waits least",
                value=f"rank {waits.least_waiting_rank}, in {waits.collectives:,} collectives",
            )
        )
        evidence.append(
            Evidence(name="waiting in collectives", value=format_percent(waits.waiting_share))
        )
    return Finding(
        id="straggler",
        title=f"Rank {slow.rank} holds the others up ({slow.cause}).",
        evidence=tuple(evidence),
        changes=(_CHANGES[slow.cause],),
        gain=Gain(
            kind=GainKind.TIME,
            share=slow.step_share,
            how="time of this rank beyond the others' median in the same step, over step time",
        ),
        link=Link(view=View.COMMUNICATION),
    )
