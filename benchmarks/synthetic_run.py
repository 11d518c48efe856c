"""A run of any size through the real writers, with numbers that look like a training run's."""

import math
import random
from pathlib import Path

from probe.record.rank import RankWriter
from probe.record.run import RunWriter
from probe.schema.documents import Header, Manifest, RunConfig
from probe.schema.rows import (
    CommCallRow,
    CommRow,
    EventRow,
    MemoryRow,
    MetricRow,
    NumericsRow,
    OffloadRow,
    OverflowRow,
    Row,
    StepRow,
)
from probe.schema.vocabulary import (
    CollectiveOp,
    Direction,
    EventKind,
    MemoryCategory,
    NonFinite,
    Phase,
    Precision,
    RunStatus,
    SkipReason,
    TensorRole,
    Tier,
)

COLLECTIVES = [
    (Phase.FORWARD, CollectiveOp.ALL_GATHER, CollectiveOp.ALL_GATHER),
    (Phase.BACKWARD, CollectiveOp.ALL_GATHER, CollectiveOp.ALL_GATHER),
    (Phase.BACKWARD, CollectiveOp.REDUCE_SCATTER, CollectiveOp.ALL_TO_ALL),
    (Phase.OPTIMIZER, CollectiveOp.ALL_REDUCE, CollectiveOp.ALL_REDUCE),
    (Phase.OPTIMIZER, CollectiveOp.ALL_GATHER, CollectiveOp.ALL_GATHER),
    (Phase.OTHER, CollectiveOp.BROADCAST, CollectiveOp.BROADCAST),
    (Phase.OTHER, CollectiveOp.BARRIER, CollectiveOp.BARRIER),
    (Phase.DATA, CollectiveOp.ALL_REDUCE, CollectiveOp.ALL_REDUCE),
]


def record_synthetic_run(runs_dir: Path, *, ranks: int, steps: int, name: str) -> Path:
    """Record a run whole; returns its directory."""
    config = RunConfig(precision=Precision.FP16, stage=3, offload_optimizer=Tier.HOST)
    run = RunWriter.create(
        runs_dir, Manifest(name=name, world_size=ranks, config=config, command=["synthetic"])
    )
    for rank in range(ranks):
        chance = random.Random(rank)
        writer = RankWriter(run.path, Header(rank=rank))
        now_ns = 0
        for step in range(steps):
            rows = rows_of_step(chance, step=step, ranks=ranks, begin_ns=now_ns)
            for row in rows:
                writer.write(row)
            now_ns += 150_000_000
            writer.beat(step=step, phase=Phase.OPTIMIZER, step_wall_ns=150_000_000)
        writer.close()
    run.finish(RunStatus.FINISHED, dict.fromkeys(range(ranks), 0))
    return run.path


def rows_of_step(chance: random.Random, *, step: int, ranks: int, begin_ns: int) -> list[Row]:
    """What one rank writes in a step: now and then an overflow, now and then a sample."""
    skipped = step % 997 == 5
    rows = [_step_row(chance, step=step, begin_ns=begin_ns, skipped=skipped)]
    rows += _every_step(chance, step=step, ranks=ranks)
    if skipped:
        rows.append(_overflow_row(step))
    if step % 100 == 0:
        rows += _sampled(chance, step=step, ranks=ranks)
    return rows


def rows_for_every_table(chance: random.Random, *, step: int) -> list[Row]:
    """The dearest step: at least one row for each table, eight for comm."""
    return [
        _step_row(chance, step=step, begin_ns=0, skipped=True),
        *_every_step(chance, step=step, ranks=8),
        _overflow_row(step),
        *_sampled(chance, step=step, ranks=8),
    ]


def _around(chance: random.Random, value: float) -> int:
    return int(value * (1 + 0.05 * chance.gauss(0, 1)))


def _step_row(chance: random.Random, *, step: int, begin_ns: int, skipped: bool) -> Row:
    phases = {
        "forward_ns": _around(chance, 40e6),
        "backward_ns": _around(chance, 80e6),
        "gather_wait_ns": _around(chance, 5e6),
        "reduce_wait_ns": _around(chance, 4e6),
        "optimizer_ns": _around(chance, 20e6),
        "other_ns": _around(chance, 1e6),
    }
    return StepRow(
        step=step,
        begin_ns=begin_ns,
        wall_ns=sum(phases.values()),
        samples=8,
        tokens=1024,
        loss=math.nan if skipped else 10 * math.exp(-step / 3000) + chance.gauss(0, 0.05),
        lr=1e-3 * min(1, step / 100),
        grad_norm=math.inf if skipped else abs(chance.gauss(2, 0.3)),
        clip_coefficient=1.0,
        loss_scale=65536.0,
        loss_scale_next=65536.0,
        hysteresis_left=2,
        skipped=skipped,
        skip_reason=SkipReason.OVERFLOW if skipped else None,
        **phases,
    )


def _every_step(chance: random.Random, *, step: int, ranks: int) -> list[Row]:
    """Communication, memory and offload."""
    return [
        *(
            CommRow(
                step=step,
                phase=phase,
                op=op,
                wire_op=wire_op,
                group_size=ranks,
                dtype="fp16",
                calls=12,
                logical_bytes=40_000_000,
                wire_bytes=35_000_000,
                busy_ns=_around(chance, 8e6),
                exposed_ns=_around(chance, 2e6),
            )
            for phase, op, wire_op in COLLECTIVES
        ),
        MemoryRow(
            step=step,
            device_params_bytes=40_000_000,
            device_grads_bytes=40_000_000,
            device_activations_bytes=_around(chance, 1e8),
            host_master_params_bytes=10_000_000,
            host_optimizer_states_bytes=20_000_000,
            rss_bytes=_around(chance, 1e9),
            peak_rss_bytes=1_200_000_000,
        ),
        OffloadRow(
            step=step,
            tier=Tier.HOST,
            direction=Direction.FETCH,
            category=MemoryCategory.OPTIMIZER_STATES,
            transfers=4,
            moved_bytes=20_000_000,
            busy_ns=_around(chance, 3e6),
            exposed_ns=_around(chance, 1e6),
            queue_depth=2,
        ),
    ]


def _overflow_row(step: int) -> Row:
    return OverflowRow(
        step=step,
        role=TensorRole.GRADIENT,
        kind=NonFinite.INF,
        parameter="blocks.3.mlp.up.weight",
        nonfinite_elements=3,
        first=True,
    )


def _sampled(chance: random.Random, *, step: int, ranks: int) -> list[Row]:
    """What is written now and then."""
    return [
        MetricRow(step=step, name="accuracy", value=chance.random()),
        EventRow(time_ns=step, kind=EventKind.CHECKPOINT_SAVED, step=step, size_bytes=1 << 30),
        CommCallRow(
            step=step,
            sequence=96 * step,
            phase=Phase.BACKWARD,
            op=CollectiveOp.REDUCE_SCATTER,
            wire_op=CollectiveOp.ALL_TO_ALL,
            group_size=ranks,
            dtype="fp16",
            block="blocks.3",
            logical_bytes=3_300_000,
            wire_bytes=2_900_000,
            end_ns=_around(chance, 8e5),
        ),
        NumericsRow(
            step=step,
            parameter="blocks.3.mlp.up.weight",
            role=TensorRole.GRADIENT,
            dtype="fp16",
            tensor_elements=1 << 20,
            lowest_exponent=-24,
            exponent_elements=[_around(chance, 1e4) for _ in range(40)],
            largest_magnitude=chance.random(),
        ),
    ]
