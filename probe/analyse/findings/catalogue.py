"""All rules, and what they find in a run.

A rule is a module with `find`: facts in, a finding or nothing out. To add one: a file, a line here
and a test that makes a run with its cause.
"""

from collections.abc import Callable

from probe.analyse.findings import (
    bf16_advisable,
    clip_rate,
    data_bound,
    exposed_communication,
    fragmentation,
    hang,
    initial_scale_too_high,
    memory_far_from_theory,
    memory_headroom,
    offload_bound,
    overflow_in_one_tensor,
    periodic_spikes,
    prefetch_not_effective,
    profiler_in_claim,
    recomputation_cost,
    scale_at_minimum,
    scale_thrashing,
    silent_skips,
    straggler,
    tiny_collectives,
    unbalanced_ranks,
)
from probe.analyse.findings.finding import Finding
from probe.analyse.run_facts import RunFacts

RULES: tuple[Callable[[RunFacts], Finding | None], ...] = (
    hang.find,
    scale_at_minimum.find,
    silent_skips.find,
    scale_thrashing.find,
    initial_scale_too_high.find,
    overflow_in_one_tensor.find,
    bf16_advisable.find,
    clip_rate.find,
    exposed_communication.find,
    tiny_collectives.find,
    prefetch_not_effective.find,
    straggler.find,
    unbalanced_ranks.find,
    data_bound.find,
    offload_bound.find,
    recomputation_cost.find,
    periodic_spikes.find,
    memory_headroom.find,
    memory_far_from_theory.find,
    fragmentation.find,
    profiler_in_claim.find,
)
"""Where gains are equal, findings come in this order."""


def find_all(facts: RunFacts) -> tuple[Finding, ...]:
    """What stands out, the largest expected gain first."""
    found = [finding for rule in RULES if (finding := rule(facts)) is not None]
    return tuple(sorted(found, key=lambda finding: -finding.gain.share))
