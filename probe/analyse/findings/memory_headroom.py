"""Memory lies idle that would make the run faster.

Condition: the fullest rank leaves more than 30 % of its device free, and one of these would fit in
90 % of the device and save more than 3 % of the time: no offload, a lower stage, a larger
micro-batch. What they save must be worth telling (`cost`). Only device memory counts: that of a
host is shared with everything else.
"""

from collections.abc import Iterator

from probe.analyse.findings.cost import cost_of_exposed, cost_of_steps
from probe.analyse.findings.finding import Change, Evidence, Finding, Gain, GainKind, Link, View
from probe.analyse.memory.theory import partition_of
from probe.analyse.memory.use import MemoryUse
from probe.analyse.run_facts import RunFacts
from probe.analyse.theory.model_states import Partition, model_states
from probe.analyse.theory.traffic import step_traffic
from probe.schema.vocabulary import MemoryCategory, Phase, Tier
from probe.units import format_bytes, format_percent

LEAST_FREE = 0.30
MOST_FILLED = 0.90
LEAST_GAIN = 0.03
FIXED = (Phase.OPTIMIZER, Phase.GATHER_WAIT, Phase.REDUCE_WAIT)
"""Phases that a larger batch does not make longer."""

Option = tuple[Change, float, str]
"""What to change, the share of the time that it saves, and how that was worked out."""


def find(facts: RunFacts) -> Finding | None:
    """The best of what would fit."""
    memory = facts.memory
    if memory is None or not memory.peak.from_allocator:
        return None
    capacity, free = memory.capacity_bytes, memory.headroom_bytes
    if not capacity or free is None or free <= LEAST_FREE * capacity:
        return None
    options = [item for item in _options(facts, memory, capacity) if item[1] > LEAST_GAIN]
    if not options:
        return None
    options.sort(key=lambda item: -item[1])
    _, share, how = options[0]
    return Finding(
        id="memory-headroom",
        title=f"{format_percent(free / capacity)} of the device memory is never used.",
        evidence=(
            Evidence(name="device memory", value=format_bytes(capacity)),
            Evidence(name="peak", value=f"{format_bytes(memory.peak.peak_bytes)}"),
            Evidence(name="free", value=format_bytes(free)),
            Evidence(name="fullest rank", value=str(memory.peak.rank)),
        ),
        changes=tuple(change for change, _, _ in options),
        gain=Gain(kind=GainKind.TIME, share=share, how=how),
        link=Link(view=View.MEMORY, first_step=memory.peak.step, last_step=memory.peak.step),
    )


def _options(facts: RunFacts, memory: MemoryUse, capacity: int) -> Iterator[Option]:
    partition = partition_of(facts.manifest)
    spare = int(MOST_FILLED * capacity) - (capacity - (memory.headroom_bytes or 0))
    elements = facts.manifest.model.trainable_elements or facts.manifest.model.param_elements
    if partition is not None and elements is not None:
        yield from _without_offload(facts, partition, elements, spare)
        yield from _lower_stage(facts, partition, elements, spare)
    yield from _larger_batch(facts, memory, spare)


def _without_offload(
    facts: RunFacts, partition: Partition, elements: int, spare: int
) -> Iterator[Option]:
    plain = Partition(stage=partition.stage, precision=partition.precision, world=partition.world)
    routes = facts.offload.routes if facts.offload else ()
    exposed = cost_of_exposed(routes).share_of(facts, least_share=LEAST_GAIN)
    if partition.offloaded and exposed and _growth(elements, partition, plain) <= spare:
        change = Change(setting="--offload none", why="All model states would fit on the device.")
        yield change, exposed, "exposed time of the offload over step time"


def _lower_stage(
    facts: RunFacts, partition: Partition, elements: int, spare: int
) -> Iterator[Option]:
    operations = facts.communication.operations if facts.communication else ()
    exposed = cost_of_exposed(operations).share_of(facts, least_share=LEAST_GAIN)
    if not exposed or partition.offloaded:
        return
    often = facts.manifest.config.accumulation_steps or 1
    sent = _sent(elements, partition.stage, partition.world, often)
    for stage in range(partition.stage):
        lower = Partition(stage=stage, precision=partition.precision, world=partition.world)
        less = 1 - _sent(elements, stage, partition.world, often) / sent if sent else 0.0
        if less > 0 and _growth(elements, partition, lower) <= spare:
            yield (
                Change(
                    setting=f"--stage {stage}",
                    why=f"It sends {format_percent(less)} less and would fit.",
                ),
                exposed * less,
                "exposed communication over step time, by the share that is no longer sent",
            )
            return


def _larger_batch(facts: RunFacts, memory: MemoryUse, spare: int) -> Iterator[Option]:
    micro = facts.manifest.config.micro_batch_samples
    activations = memory.peak.held_bytes.get((Tier.DEVICE, MemoryCategory.ACTIVATIONS))
    if not micro or not activations:
        return
    larger = micro * (activations + spare) // activations
    fixed = cost_of_steps(
        sum(
            (facts.counted.phase_ns[phase] for phase in FIXED[1:]), facts.counted.phase_ns[FIXED[0]]
        )
    ).share_of(facts, least_share=LEAST_GAIN)
    if larger > micro and fixed:
        yield (
            Change(
                setting=f"train_micro_batch_size_per_gpu: {larger}",
                why=f"Activations take {format_bytes(activations / micro)} a sample.",
            ),
            fixed * (1 - micro / larger),
            "share of update and waiting in a step, which larger batches pay less often",
        )


def _growth(elements: int, now: Partition, then: Partition) -> int:
    """Bytes of model states that the device would hold more."""
    return model_states(elements, then).on(Tier.DEVICE) - model_states(elements, now).on(
        Tier.DEVICE
    )


def _sent(elements: int, stage: int, world: int, micro_batches: int) -> float:
    traffic = step_traffic(elements, stage=stage, world=world, micro_batches=micro_batches)
    return sum(item.wire_elements for item in traffic)
