"""Everything that is concluded from one run, from its manifest and its tables.

`COLUMNS` says what to load of each table; `run_facts` does the rest, once, for whoever shows it.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from probe.analyse.communication.theory import TrafficBeside, traffic_beside_theory
from probe.analyse.communication.use import COMM_COLUMNS, Communication, communication
from probe.analyse.communication.waiting import CALL_COLUMNS, Waiting, waiting
from probe.analyse.memory.theory import Beside, memory_beside_theory
from probe.analyse.memory.use import USE_COLUMNS, MemoryUse, memory_use
from probe.analyse.offload import OFFLOAD_COLUMNS, OffloadTraffic, offload_traffic
from probe.analyse.precision.clipping import Clipping, clipping
from probe.analyse.precision.loss_scale import ScaleHistory, scale_history
from probe.analyse.precision.numerics import (
    NUMERICS_COLUMNS,
    GradientRange,
    LostUpdates,
    gradient_range,
    lost_updates,
)
from probe.analyse.precision.overflows import ORIGIN_COLUMNS, Origin, overflow_origins
from probe.analyse.precision.skips import Skips, summarise_skips
from probe.analyse.steps.balance import BALANCE_COLUMNS, RankBalance, rank_balance
from probe.analyse.steps.by_step import STEP_STORY_COLUMNS, story_of_steps
from probe.analyse.steps.phases import PhaseTime, phase_times, recompute_share
from probe.analyse.steps.regularity import Regularity, regularity
from probe.analyse.steps.steps import COUNTING_COLUMNS, CountedSteps, counted_steps
from probe.analyse.steps.throughput import Throughput, throughput, useful_share
from probe.analyse.steps.work import Work, model_work
from probe.schema.documents import Manifest
from probe.schema.tables import COMM, COMM_CALLS, MEMORY, NUMERICS, OFFLOAD, OVERFLOW, STEPS, Table
from probe.schema.vocabulary import Phase

COLUMNS: Mapping[Table, tuple[str, ...]] = {
    STEPS: tuple(dict.fromkeys((*COUNTING_COLUMNS, *STEP_STORY_COLUMNS, *BALANCE_COLUMNS))),
    COMM: COMM_COLUMNS,
    COMM_CALLS: CALL_COLUMNS,
    MEMORY: USE_COLUMNS,
    OVERFLOW: ORIGIN_COLUMNS,
    NUMERICS: NUMERICS_COLUMNS,
    OFFLOAD: OFFLOAD_COLUMNS,
}
"""The tables and columns that `run_facts` reads."""


@dataclass(frozen=True, kw_only=True, eq=False)
class RunFacts:
    """What is known of a run; None where it does not tell."""

    manifest: Manifest
    counted: CountedSteps
    phases: tuple[PhaseTime, ...]
    recompute_share: float | None
    regularity: Regularity | None
    throughput: Throughput
    useful_share: float | None
    scale: ScaleHistory | None
    skips: Skips
    origins: tuple[Origin, ...]
    clipping: Clipping | None
    gradients: GradientRange | None
    lost_updates: LostUpdates | None
    memory: MemoryUse | None
    memory_lines: tuple[Beside, ...]
    communication: Communication | None
    traffic_lines: tuple[TrafficBeside, ...]
    waiting: Waiting | None
    balance: RankBalance | None
    offload: OffloadTraffic | None
    work: Work | None

    @property
    def median_step_ns(self) -> float | None:
        """The wall time of a usual step."""
        return self.regularity.median_ns if self.regularity else None

    @property
    def mean_step_ns(self) -> float | None:
        """Mean wall time of the counted steps: what shares of means are taken of."""
        return float(self.counted.wall_ns.mean()) if len(self.counted) else None

    def phase_share(self, phase: Phase) -> float:
        """Share of the counted wall time that went into a phase; 0 if no step counts."""
        return next((item.share for item in self.phases if item.phase is phase), 0.0)


def run_facts(manifest: Manifest, tables: Mapping[Table, pa.Table]) -> RunFacts:
    """All conclusions, from tables with at least the columns of `COLUMNS`."""
    steps = tables[STEPS]
    counted, story = counted_steps(steps), story_of_steps(steps)
    profiled = pc.unique(steps.filter(steps["profiled"])["step"]).to_pylist()
    memory = memory_use(
        tables[MEMORY], profiled_steps=profiled, capacity_bytes=rank_capacity_bytes(manifest)
    )
    comm = communication(tables[COMM], counted)
    return RunFacts(
        manifest=manifest,
        counted=counted,
        phases=phase_times(counted),
        recompute_share=recompute_share(counted),
        regularity=regularity(counted),
        throughput=throughput(counted),
        useful_share=useful_share(steps),
        scale=scale_history(story),
        skips=summarise_skips(story),
        origins=overflow_origins(tables[OVERFLOW]),
        clipping=clipping(story),
        gradients=gradient_range(tables[NUMERICS]),
        lost_updates=lost_updates(tables[NUMERICS]),
        memory=memory,
        memory_lines=memory_beside_theory(memory.peak, manifest) if memory else (),
        communication=comm,
        traffic_lines=traffic_beside_theory(comm, manifest),
        waiting=waiting(tables[COMM_CALLS], counted),
        balance=rank_balance(steps, tables[COMM], counted),
        offload=offload_traffic(tables[OFFLOAD], counted),
        work=model_work(counted, manifest),
    )


def rank_capacity_bytes(manifest: Manifest) -> int | None:
    """Memory that a rank may use: that of its device, or without devices its part of the host."""
    sizes = [device.memory_bytes for device in manifest.devices if device.kind != "cpu"]
    if sizes:
        return None if None in sizes else min(size for size in sizes if size is not None)
    hosts = [host.memory_bytes for host in manifest.hosts]
    if not hosts or None in hosts:
        return None
    ranks_per_host = -(-manifest.world_size // len(hosts))
    return min(size for size in hosts if size is not None) // ranks_per_host
