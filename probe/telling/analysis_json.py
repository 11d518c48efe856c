"""What was concluded from a run, as plain values for `--json`."""

from typing import Any

import msgspec

from probe.analyse.communication.use import Communication
from probe.analyse.communication.waiting import Waiting
from probe.analyse.memory.use import MemoryUse
from probe.analyse.run_facts import RunFacts


def analysis_json(facts: RunFacts) -> dict[str, Any]:
    """Every conclusion under its name; null where the run does not tell."""
    counted = facts.counted
    return {
        "steps": {
            "recorded": counted.recorded,
            "counted": len(counted),
            "excluded": dict(counted.excluded),
            "repeated": counted.repeated,
            "useful_time_share": facts.useful_share,
        },
        "phases": _plain(facts.phases),
        "recompute_share": facts.recompute_share,
        "regularity": _plain(facts.regularity),
        "throughput": _plain(facts.throughput),
        "work": facts.work and {**_plain(facts.work), "mfu": facts.work.mfu},
        "loss_scale": facts.scale
        and {
            **_plain(facts.scale),
            "recommended_initial_power": facts.scale.recommended_initial_power,
        },
        "skips": {
            **_plain(facts.skips),
            "overflow_share": facts.skips.overflow_share,
            "later_overflow_share": facts.skips.later_overflow_share,
        },
        "overflow_origins": _plain(facts.origins),
        "clipping": facts.clipping and {**_plain(facts.clipping), "share": facts.clipping.share},
        "gradients": _plain(facts.gradients),
        "lost_updates": _plain(facts.lost_updates),
        "memory": facts.memory and _memory(facts.memory),
        "memory_beside_theory": _plain(facts.memory_lines),
        "communication": facts.communication and _communication(facts.communication),
        "communication_beside_theory": [
            {**_plain(line), "wire_excess": line.wire_excess} for line in facts.traffic_lines
        ],
        "waiting": facts.waiting and _waiting(facts.waiting),
        "balance": facts.balance
        and {**_plain(facts.balance), "load_excess": facts.balance.load_excess},
        "offload": facts.offload
        and {
            **_plain(facts.offload),
            "hidden_share": facts.offload.hidden_share,
            "routes": [
                {**_plain(route), "bytes_per_s": route.bytes_per_s}
                for route in facts.offload.routes
            ],
        },
    }


def _plain(value: Any) -> Any:
    """Frozen results as dictionaries and lists; keys are texts."""
    return msgspec.to_builtins(value, str_keys=True)


def _memory(memory: MemoryUse) -> dict[str, Any]:
    peak = memory.peak
    held: dict[str, dict[str, int]] = {}
    for (tier, category), size in peak.held_bytes.items():
        held.setdefault(tier.value, {})[category.value] = size
    return {
        "peak": {
            "rank": peak.rank,
            "step": peak.step,
            "peak_bytes": peak.peak_bytes,
            "from_allocator": peak.from_allocator,
            "held_bytes": held,
            "unaccounted_bytes": peak.unaccounted_bytes,
            "fragmented_bytes": peak.fragmented_bytes,
        },
        "rank_peak_bytes": _plain(memory.rank_peak_bytes),
        "imbalance": _plain(memory.imbalance),
        "allocator_retries": memory.allocator_retries,
        "peak_rss_bytes": memory.peak_rss_bytes,
        "capacity_bytes": memory.capacity_bytes,
        "headroom_bytes": memory.headroom_bytes,
    }


def _communication(comm: Communication) -> dict[str, Any]:
    return {
        **_plain(comm),
        "overlap_share": comm.overlap_share,
        "operations": [
            {
                **_plain(item),
                "algbw_bytes_per_s": item.algbw_bytes_per_s,
                "busbw_bytes_per_s": item.busbw_bytes_per_s,
                "exposed_share": item.exposed_share,
            }
            for item in comm.operations
        ],
    }


def _waiting(waiting: Waiting) -> dict[str, Any]:
    return {
        **_plain(waiting),
        "least_waiting_rank": waiting.least_waiting_rank,
        "waiting_share": waiting.waiting_share,
    }
