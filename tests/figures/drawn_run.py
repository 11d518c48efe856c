"""A run with everything in it that figures draw, and the same run as a directory.

Four ranks in fp16, stage 2, the optimizer on the host. The first steps overflow, one is nan, a few
were profiled; rank 2 is slow; two parameters underflow.
"""

import math
import random
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from probe.analyse.run_facts import RunFacts, run_facts
from probe.analyse.series.run_series import RunSeries, run_series
from probe.record.rank import RankWriter
from probe.record.run import RunWriter
from probe.schema.documents import DeviceFacts, Header, Manifest, ModelFacts, RunConfig
from probe.schema.rows import (
    CommCallRow,
    CommRow,
    MemoryRow,
    NumericsRow,
    OffloadRow,
    OverflowRow,
    Row,
    StepRow,
)
from probe.schema.tables import TABLE_BY_ROW, TABLES, Table
from probe.schema.vocabulary import (
    CollectiveOp,
    Direction,
    MemoryCategory,
    NonFinite,
    Phase,
    Precision,
    RunStatus,
    SkipReason,
    TensorRole,
    Tier,
)
from tests.analyse.hand_built import table_of

MS = 10**6
MB = 10**6
PARAMETERS = ("tokens.weight", "blocks.0.mlp.up.weight", "blocks.1.mlp.up.weight", "head.weight")
OVERFLOWS = (0, 1, 2, 3, 90, 91, 150)
NAN_STEP = 150


@dataclass(frozen=True, kw_only=True)
class DrawnRun:
    """A run in the forms that figures take."""

    manifest: Manifest
    tables: Mapping[Table, pa.Table]
    facts: RunFacts
    series: RunSeries


def manifest_of(*, ranks: int = 4, **changes: object) -> Manifest:
    facts: dict = {
        "name": "drawn",
        "world_size": ranks,
        "started_ns": 1_750_000_000 * 10**9,
        "command": ["probe", "run", "train.py"],
        "config": RunConfig(
            precision=Precision.FP16,
            stage=2,
            offload_optimizer=Tier.HOST,
            micro_batch_samples=8,
            accumulation_steps=1,
            settings={"optimizer.type": "AdamW"},
        ),
        "model": ModelFacts(param_elements=100 * MB, trainable_elements=100 * MB),
        "devices": [
            DeviceFacts(name="NVIDIA A100", kind="cuda", memory_bytes=10_000 * MB, count=ranks)
        ],
    }
    return Manifest(**{**facts, **changes})


def drawn_run(
    *, ranks: int = 4, steps: int = 200, slower: float = 1.0, names: tuple[str, ...] = PARAMETERS
) -> DrawnRun:
    """The run in memory; a factor makes its compute slower."""
    rows = made_rows(ranks=ranks, steps=steps, slower=slower, names=names)
    by_table: dict[Table, dict[int, list[Row]]] = {
        table: {rank: [] for rank in rows} for table in TABLES
    }
    for rank, its in rows.items():
        for row in its:
            by_table[TABLE_BY_ROW[type(row)]][rank].append(row)
    tables = {table: table_of(table, its) for table, its in by_table.items()}
    manifest = manifest_of(ranks=ranks)
    facts = run_facts(manifest, tables)
    return DrawnRun(
        manifest=manifest, tables=tables, facts=facts, series=run_series(tables, facts.counted)
    )


def record_drawn_run(
    runs_dir: Path,
    name: str,
    *,
    ranks: int = 4,
    steps: int = 200,
    slower: float = 1.0,
    names: tuple[str, ...] = PARAMETERS,
    **facts: object,
) -> Path:
    """The run as a directory."""
    run = RunWriter.create(runs_dir, manifest_of(ranks=ranks, **facts))
    for rank, rows in made_rows(ranks=ranks, steps=steps, slower=slower, names=names).items():
        writer = RankWriter(run.path, Header(rank=rank))
        for row in rows:
            writer.write(row)
        writer.close()
    run.finish(RunStatus.FINISHED, dict.fromkeys(range(ranks), 0))
    return run.path.rename(run.path.with_name(name))


def made_rows(
    *, ranks: int, steps: int, slower: float, names: tuple[str, ...]
) -> dict[int, list[Row]]:
    """All rows of each rank, in order."""
    scales = scale_story(steps)
    return {
        rank: [
            row
            for step in range(steps)
            for row in _rows_of_step(rank, step, ranks, scales, slower, names)
        ]
        for rank in range(ranks)
    }


def scale_story(steps: int) -> list[tuple[float, float, int]]:
    """Scale used, scale after and hysteresis left of each step, by DeepSpeed's rule."""
    scale, left, last, story = 2.0**20, 2, -1, []
    for step in range(steps):
        used = scale
        if step in OVERFLOWS:
            if left == 1:
                scale = max(scale / 2, 1.0)
            else:
                left -= 1
            last = step
        elif (step - last - 1) > 0 and (step - last - 1) % 50 == 0:
            scale, left = scale * 2, 2
        story.append((used, scale, left))
    return story


def _rows_of_step(
    rank: int,
    step: int,
    ranks: int,
    scales: list[tuple[float, float, int]],
    slower: float,
    names: tuple[str, ...],
) -> list[Row]:
    chance = random.Random(step * 1009 + rank)

    def around(value: float) -> int:
        return int(value * (1 + 0.03 * chance.gauss(0, 1)))

    slow_rank = 1.25 if rank == 2 else 1.0
    start = 3.0 if step < 6 else 1.0
    phases = {
        "data_ns": around(2 * MS),
        "forward_ns": around(30 * MS * slower * slow_rank * start),
        "backward_ns": around(62 * MS * slower * slow_rank),
        "gather_wait_ns": around(4 * MS if rank == 2 else 22 * MS),
        "reduce_wait_ns": around(3 * MS if rank == 2 else 9 * MS),
        "optimizer_ns": around(14 * MS),
        "offload_wait_ns": around(6 * MS),
        "checkpoint_ns": 80 * MS if step and step % 60 == 0 else 0,
        "other_ns": around(2 * MS),
    }
    overflowed = step in OVERFLOWS
    used, after, left = scales[step]
    loss = 8 * math.exp(-step / 70) + 2 + chance.gauss(0, 0.04)
    profiled = 20 <= step < 24
    rows: list[Row] = [
        StepRow(
            step=step,
            begin_ns=step * 150 * MS,
            wall_ns=sum(phases.values()),
            samples=8,
            tokens=1024,
            loss=math.nan if step == NAN_STEP else loss,
            lr=1e-3,
            grad_norm=math.inf if overflowed else abs(chance.gauss(1.4, 0.2)),
            clip_coefficient=1.0,
            loss_scale=used,
            loss_scale_next=after,
            hysteresis_left=left,
            skipped=overflowed,
            skip_reason=SkipReason.OVERFLOW if overflowed else None,
            profiled=profiled,
            **phases,
        ),
        *_traffic(step, ranks, around),
        MemoryRow(
            step=step,
            device_params_bytes=200 * MB,
            device_grads_bytes=50 * MB,
            device_grad_buckets_bytes=100 * MB,
            device_activations_bytes=around((900 + 40 * rank) * MB),
            device_comm_buffers_bytes=32 * MB,
            host_master_params_bytes=100 * MB,
            host_optimizer_states_bytes=200 * MB,
            peak_allocated_bytes=(1_420 + 40 * rank) * MB,
            peak_reserved_bytes=1_700 * MB,
            rss_bytes=around(900 * MB),
            peak_rss_bytes=1_000 * MB,
        ),
        *(
            OffloadRow(
                step=step,
                tier=Tier.HOST,
                direction=direction,
                category=category,
                transfers=4,
                moved_bytes=size,
                busy_ns=around(8 * MS),
                exposed_ns=around(3 * MS),
                queue_depth=2,
            )
            for direction, category, size in (
                (Direction.FETCH, MemoryCategory.PARAMS, 50 * MB),
                (Direction.STORE, MemoryCategory.GRADS, 50 * MB),
            )
        ),
    ]
    if overflowed:
        rows.append(
            OverflowRow(
                step=step,
                role=TensorRole.GRADIENT,
                kind=NonFinite.NAN if step == NAN_STEP else NonFinite.INF,
                parameter=names[-1],
                nonfinite_elements=7,
                first=True,
            )
        )
    if step % 10 == 0:
        rows += _samples(rank, step, ranks, used, names, chance)
    return rows


def _traffic(step: int, ranks: int, around) -> list[Row]:
    return [
        CommRow(
            step=step,
            phase=phase,
            op=op,
            wire_op=wire,
            group_size=ranks,
            dtype="fp16",
            calls=calls,
            logical_bytes=200 * MB,
            wire_bytes=int(200 * MB * factor * (ranks - 1) / ranks),
            busy_ns=around(busy * MS),
            exposed_ns=around(exposed * MS),
        )
        for phase, op, wire, calls, factor, busy, exposed in (
            (
                Phase.BACKWARD,
                CollectiveOp.REDUCE_SCATTER,
                CollectiveOp.ALL_REDUCE,
                8,
                2,
                30,
                9,
            ),
            (Phase.OPTIMIZER, CollectiveOp.ALL_GATHER, CollectiveOp.ALL_GATHER, 12, 1, 24, 22),
        )
    ]


def _samples(
    rank: int,
    step: int,
    ranks: int,
    scale: float,
    names: tuple[str, ...],
    chance: random.Random,
) -> list[Row]:
    rows: list[Row] = []
    for place, name in enumerate(names):
        middle = -9 - 5 * place - step / 100
        histogram = [
            int(3000 * math.exp(-((exponent - middle) ** 2) / 18)) for exponent in range(-40, 16)
        ]
        lost = sum(histogram[: 40 - 24])
        rows.append(
            NumericsRow(
                step=step,
                parameter=name,
                role=TensorRole.GRADIENT,
                dtype="fp16",
                tensor_elements=sum(histogram) + 10,
                zero_elements=10,
                subnormal_elements=sum(histogram[16:26]),
                underflow_elements=lost,
                lowest_exponent=-40,
                exponent_elements=histogram,
                largest_magnitude=2.0 ** (middle + 8),
                lost_update_elements=20 * place,
                loss_scale=scale,
            )
        )
    if ranks > 1:
        late = 8 * MS if rank != 2 else 0
        rows.append(
            CommCallRow(
                step=step,
                sequence=step,
                phase=Phase.BACKWARD,
                op=CollectiveOp.REDUCE_SCATTER,
                wire_op=CollectiveOp.ALL_REDUCE,
                group_size=ranks,
                dtype="fp16",
                logical_bytes=25 * MB,
                start_ns=0,
                end_ns=4 * MS + late + int(chance.random() * MS),
            )
        )
    return rows
