"""Model states take other memory than the closed form says, and nothing explains it.

Condition: a category of model states differs from its closed form by more than 10 %, by more
than 1 % of the peak and by more than 1 MiB, and the difference has no name.
"""

from probe.analyse.findings.finding import Change, Evidence, Finding, Gain, GainKind, Link, View
from probe.analyse.memory.theory import STATES, Beside, Residual
from probe.analyse.run_facts import RunFacts
from probe.schema.vocabulary import MemoryCategory, Tier
from probe.units import format_bytes, format_percent

LEAST_DIFFERENCE = 0.10
LEAST_PEAK_SHARE = 0.01
LEAST_BYTES = 1 << 20
"""Counters of steps and tables of indices stand in no form."""

_CHANGES = {
    MemoryCategory.PARAMS: Change(
        setting="engine.sharded_init()", why="Parameters that are built whole stay whole somewhere."
    ),
    MemoryCategory.GRADS: Change(
        setting="data_types.grad_accum_dtype", why="Gradients may be kept in another type or whole."
    ),
    MemoryCategory.MASTER_PARAMS: Change(
        setting="zero_optimization.stage", why="fp32 weights may not be partitioned as configured."
    ),
    MemoryCategory.OPTIMIZER_STATES: Change(
        setting="optimizer.type", why="The optimizer keeps other states than its name says."
    ),
}


def find(facts: RunFacts) -> Finding | None:
    """The category that is farthest off."""
    if facts.memory is None:
        return None
    peak = facts.memory.peak
    off = [line for line in facts.memory_lines if _is_far(line, peak.peak_bytes)]
    if not off:
        return None
    worst = max(off, key=lambda line: abs(line.residual_bytes))
    assert worst.category is not None, "states have a category"
    sign = "more" if worst.residual_bytes > 0 else "less"
    excess = max(0, sum(line.residual_bytes for line in off if line.tier is Tier.DEVICE))
    return Finding(
        id="memory-far-from-theory",
        title=f"{worst.category} on {worst.tier} take {format_bytes(abs(worst.residual_bytes))} "
        f"{sign} than the closed form.",
        evidence=tuple(
            Evidence(
                name=f"{line.category} on {line.tier}",
                value=f"{format_bytes(line.measured_bytes)}, expected "
                f"{format_bytes(line.theory_bytes)}",
            )
            for line in off
        ),
        changes=(_CHANGES[worst.category],),
        gain=Gain(
            kind=GainKind.MEMORY,
            share=excess / peak.peak_bytes if peak.peak_bytes else 0.0,
            how=f"what is beyond the closed form on the device, "
            f"{format_percent(excess / peak.peak_bytes if peak.peak_bytes else None)} of the peak",
        ),
        link=Link(view=View.MEMORY, first_step=peak.step, last_step=peak.step),
    )


def _is_far(line: Beside, peak_bytes: int) -> bool:
    return (
        line.category in STATES
        and line.theory_bytes is not None
        and line.residual is Residual.UNEXPLAINED
        and abs(line.residual_bytes) > LEAST_DIFFERENCE * line.theory_bytes
        and abs(line.residual_bytes) > max(LEAST_PEAK_SHARE * peak_bytes, LEAST_BYTES)
    )
