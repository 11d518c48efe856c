"""Ranks get unequal work or hold unequal memory.

Condition: the most loaded rank gets more than 10 % more tokens (or samples) than the mean, which is
four standard errors or more, since sentences differ and one rank always has the longest; or the
fullest rank's peak is more than 10 % and 16 MiB above the median rank's.
"""

from probe.analyse.findings.finding import Change, Evidence, Finding, Gain, GainKind, Link, View
from probe.analyse.run_facts import RunFacts
from probe.schema.vocabulary import Phase
from probe.units import format_bytes, format_count, format_percent

LEAST_LOAD = 0.10
LEAST_LOAD_ERRORS = 4.0
LEAST_MEMORY = 0.10
LEAST_MEMORY_BYTES = 16 << 20
"""Workspaces and buffers of libraries differ by as much between ranks."""


def find(facts: RunFacts) -> Finding | None:
    """Uneven work first: it costs time on every rank."""
    return _uneven_load(facts) or _uneven_memory(facts)


def _uneven_load(facts: RunFacts) -> Finding | None:
    balance = facts.balance
    excess = balance.load_excess if balance else None
    if balance is None or excess is None or excess <= LEAST_LOAD:
        return None
    if balance.load_error is None or excess < LEAST_LOAD_ERRORS * balance.load_error:
        return None
    most = max(balance.load, key=lambda rank: balance.load[rank])
    least = min(balance.load, key=lambda rank: balance.load[rank])
    compute = facts.phase_share(Phase.FORWARD) + facts.phase_share(Phase.BACKWARD)
    unit = balance.load_unit
    return Finding(
        id="unbalanced-ranks",
        title=f"Rank {most} gets {format_percent(excess)} more {unit} than the mean.",
        evidence=(
            Evidence(
                name=f"rank {most}", value=f"{format_count(balance.load[most])} {unit} a step"
            ),
            Evidence(
                name=f"rank {least}", value=f"{format_count(balance.load[least])} {unit} a step"
            ),
            Evidence(name="compute", value=f"{format_percent(compute)} of the step"),
        ),
        changes=(
            Change(
                setting="DataLoader(batch_sampler=…)",
                why="Deal samples by length, so that ranks get equal numbers of tokens.",
            ),
        ),
        gain=Gain(
            kind=GainKind.TIME,
            share=compute * excess / (1 + excess),
            how="share of forward and backward that the most loaded rank does beyond the mean",
        ),
        link=Link(view=View.STEPS),
    )


def _uneven_memory(facts: RunFacts) -> Finding | None:
    memory = facts.memory
    imbalance = memory.imbalance if memory else None
    if memory is None or imbalance is None or imbalance.excess_share <= LEAST_MEMORY:
        return None
    if imbalance.excess_bytes <= LEAST_MEMORY_BYTES:
        return None
    excess = format_bytes(imbalance.excess_bytes)
    return Finding(
        id="unbalanced-ranks",
        title=f"Rank {imbalance.fullest_rank} holds {excess} more than the median rank.",
        evidence=(
            Evidence(name="its peak", value=format_bytes(memory.peak.peak_bytes)),
            Evidence(name="beyond the median", value=format_percent(imbalance.excess_share)),
            Evidence(name="mostly", value=imbalance.category),
        ),
        changes=(
            Change(
                setting="torch.load(…, map_location='cpu')",
                why="What one rank loads or keeps for all the others belongs on the host.",
            ),
        ),
        gain=Gain(
            kind=GainKind.MEMORY,
            share=imbalance.excess_bytes / memory.peak.peak_bytes,
            how="what the fullest rank holds beyond the median rank, over its peak",
        ),
        link=Link(view=View.MEMORY, first_step=memory.peak.step, last_step=memory.peak.step),
    )
