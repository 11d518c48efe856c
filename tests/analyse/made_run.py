"""A healthy run of four ranks, and the same run with one thing wrong.

60 steps of 100 ms in fp16, stage 2: nothing stands out. A test states what is different, by table:
fields to change, as a function of step and rank, or rows to add.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from probe.analyse.findings.catalogue import find_all
from probe.analyse.findings.finding import Finding
from probe.analyse.run_facts import RunFacts, run_facts
from probe.schema.documents import DeviceFacts, Manifest, ModelFacts, RunConfig
from probe.schema.rows import CommRow, MemoryRow, NumericsRow, OffloadRow, Row, StepRow
from probe.schema.tables import (
    COMM,
    COMM_CALLS,
    MEMORY,
    NUMERICS,
    OFFLOAD,
    OVERFLOW,
    STEPS,
    TABLE_BY_ROW,
    Table,
)
from probe.schema.vocabulary import (
    CollectiveOp,
    Direction,
    MemoryCategory,
    Phase,
    Precision,
    SkipReason,
    TensorRole,
    Tier,
)
from tests.analyse.hand_built import table_of

RANKS = 4
STEPS_MADE = 60
MS = 10**6
MB = 10**6
PARAMS = 100 * 10**6
Different = Callable[[int, int], dict[str, Any]]
"""Fields to change in the row of a step (first) on a rank (second)."""

HEALTHY = Manifest(
    world_size=RANKS,
    config=RunConfig(
        precision=Precision.FP16,
        stage=2,
        micro_batch_samples=8,
        accumulation_steps=1,
        settings={
            "optimizer.type": "AdamW",
            "clip_norm": 1.0,
            "precision.loss_scale.window_steps": 1000,
            "zero.overlap_communication": True,
            "zero.prefetch_elements": 50_000_000,
        },
    ),
    model=ModelFacts(param_elements=PARAMS, trainable_elements=PARAMS),
    devices=[DeviceFacts(name="NVIDIA A100", kind="cuda", memory_bytes=10_000 * MB, count=RANKS)],
)


def configured(**changes: Any) -> Manifest:
    """The healthy manifest with another configuration; `settings` are added to those there."""
    settings = {**HEALTHY.config.settings, **changes.pop("settings", {})}
    config = msgspec.structs.replace(HEALTHY.config, settings=settings, **changes)
    return msgspec.structs.replace(HEALTHY, config=config)


def facts_of(
    manifest: Manifest = HEALTHY,
    *,
    ranks: int = RANKS,
    count: int = STEPS_MADE,
    steps: Different | None = None,
    comm: Different | None = None,
    memory: Different | None = None,
    numerics: Different | None = None,
    more: Callable[[int, int], list[Row]] = lambda step, rank: [],
) -> RunFacts:
    """What is concluded from the healthy run with these differences."""
    tables: dict[Table, dict[int, list[Row]]] = {
        table: {rank: [] for rank in range(ranks)}
        for table in (STEPS, COMM, COMM_CALLS, MEMORY, OVERFLOW, NUMERICS, OFFLOAD)
    }
    changes = {StepRow: steps, CommRow: comm, MemoryRow: memory, NumericsRow: numerics}
    for rank in range(ranks):
        for step in range(count):
            for row in _healthy_rows(step):
                different = changes[type(row)]
                fields = different(step, rank) if different else {}
                changed = msgspec.structs.replace(row, **fields)
                tables[TABLE_BY_ROW[type(row)]][rank].append(changed)
            for row in more(step, rank):
                tables[TABLE_BY_ROW[type(row)]][rank].append(row)
    return run_facts(manifest, {table: table_of(table, rows) for table, rows in tables.items()})


def found(*arguments: Any, **differences: Any) -> dict[str, Finding]:
    """What stands out in the healthy run with these differences, by id."""
    return {finding.id: finding for finding in find_all(facts_of(*arguments, **differences))}


def _healthy_rows(step: int) -> list[Row]:
    rows: list[Row] = [
        StepRow(
            step=step,
            begin_ns=100 * MS * step,
            wall_ns=100 * MS,
            data_ns=1 * MS,
            forward_ns=30 * MS,
            backward_ns=50 * MS,
            reduce_wait_ns=2 * MS,
            optimizer_ns=15 * MS,
            other_ns=2 * MS,
            samples=8,
            tokens=1024,
            loss=2.0,
            clip_coefficient=1.0,
            loss_scale=65536.0,
            loss_scale_next=65536.0,
        ),
        _traffic(step, Phase.BACKWARD, CollectiveOp.REDUCE_SCATTER, calls=8, exposed_ns=2 * MS),
        _traffic(step, Phase.OPTIMIZER, CollectiveOp.ALL_GATHER, calls=8, exposed_ns=3 * MS),
        MemoryRow(
            step=step,
            device_params_bytes=200 * MB,
            device_grads_bytes=50 * MB,
            device_grad_buckets_bytes=100 * MB,
            device_master_params_bytes=100 * MB,
            device_optimizer_states_bytes=200 * MB,
            device_activations_bytes=7_500 * MB,
            peak_allocated_bytes=8_200 * MB,
            peak_reserved_bytes=8_500 * MB,
            allocator_retries=0,
        ),
    ]
    if step % 20 == 0:
        rows.append(
            NumericsRow(
                step=step,
                parameter="blocks.0.weight",
                role=TensorRole.GRADIENT,
                dtype="fp16",
                tensor_elements=1000,
                underflow_elements=1,
                largest_magnitude=500.0,
                loss_scale=65536.0,
            )
        )
    return rows


def _traffic(step: int, phase: Phase, op: CollectiveOp, *, calls: int, exposed_ns: int) -> Row:
    return CommRow(
        step=step,
        phase=phase,
        op=op,
        wire_op=op,
        group_size=RANKS,
        dtype="fp16",
        calls=calls,
        logical_bytes=2 * PARAMS,
        wire_bytes=2 * PARAMS * (RANKS - 1) // RANKS,
        busy_ns=10 * MS,
        exposed_ns=exposed_ns,
    )


def only(finding_id: str, *arguments: Any, **differences: Any) -> Finding:
    """The finding, which must be the only one."""
    result = found(*arguments, **differences)
    assert list(result) == [finding_id]
    return result[finding_id]


def named(finding: Finding) -> dict[str, str]:
    """The evidence by its name."""
    return {item.name: item.value for item in finding.evidence}


def settings_of(finding: Finding) -> list[str]:
    """What there is to change, the first to try first."""
    return [change.setting for change in finding.changes]


def everywhere(**fields: Any) -> Different:
    """The same difference in all rows."""
    return lambda step, rank: fields


def on_rank(which: int, **fields: Any) -> Different:
    """A difference on one rank."""
    return lambda step, rank: fields if rank == which else {}


def in_steps(*numbers: int, **fields: Any) -> Different:
    """A difference in some steps of all ranks."""
    return lambda step, rank: fields if step in numbers else {}


OVERFLOW_OF_STEP = {"skipped": True, "skip_reason": SkipReason.OVERFLOW}
"""Fields of a step that overflowed."""


STAGE_3 = configured(stage=3)
OFFLOADED = configured(offload_optimizer=Tier.HOST)
ON_HOST = everywhere(
    device_grads_bytes=0,
    device_master_params_bytes=0,
    device_optimizer_states_bytes=0,
    host_grads_bytes=50 * MB,
    host_master_params_bytes=100 * MB,
    host_optimizer_states_bytes=200 * MB,
)


def moved(exposed_ns: int, tier: Tier = Tier.HOST) -> Callable[[int, int], list[Row]]:
    """Offload traffic of every step, to be added."""

    def rows(step: int, rank: int) -> list[Row]:
        return [
            OffloadRow(
                step=step,
                tier=tier,
                direction=Direction.FETCH,
                category=MemoryCategory.OPTIMIZER_STATES,
                moved_bytes=200 * MB,
                busy_ns=20 * MS,
                exposed_ns=exposed_ns,
            )
        ]

    return rows
