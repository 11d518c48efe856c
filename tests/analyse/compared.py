"""Runs to compare, with a truth that is set: built from rows, measured as any other."""

import numpy as np

from probe.analyse.compare.measured_run import measure_run
from probe.schema.documents import (
    DeviceFacts,
    HostFacts,
    Manifest,
    ModelFacts,
    RunConfig,
)
from probe.schema.rows import CommRow, MemoryRow, MetricRow, StepRow
from probe.schema.tables import COMM, MEMORY, METRICS, STEPS
from probe.schema.vocabulary import (
    CollectiveOp,
    MemoryCategory,
    Phase,
    Precision,
    RunStatus,
    SkipReason,
    Tier,
)
from tests.analyse.hand_built import table_of

MS = 10**6
STEPS_A_RUN = 200


def manifest(*, precision=Precision.FP16, stage=2, offload=Tier.DEVICE, batch=16, **facts):
    return Manifest(
        world_size=2,
        config=RunConfig(
            precision=precision, stage=stage, offload_optimizer=offload, train_batch_samples=batch
        ),
        **{
            "model": ModelFacts(name="gpt", param_elements=1_000_000, trainable_elements=1_000_000),
            "hosts": [HostFacts(name="node1", cores=8)],
            "devices": [DeviceFacts(name="cpu", kind="cpu")],
            "versions": {"torch": "2.13.0"},
            "seeds": {"torch": 0},
            **facts,
        },
    )


def rows_of_run(
    *,
    steps=STEPS_A_RUN,
    seed=0,
    noise=0.01,
    forward_ms=30.0,
    backward_ms=50.0,
    wait_ms=10.0,
    skipped=(),
    profiled=(),
    final_loss=1.0,
    loss_from=None,
    params_bytes=2_000_000,
    wire_bytes=1_000_000,
    samples=8,
    accuracy=0.9,
):
    """Rows of two ranks; rank 1 is the slower one. From step `loss_from` on the loss is larger."""
    chance = np.random.default_rng(seed)
    factors = 1 + noise * chance.normal(size=steps)
    tables = {STEPS: {}, MEMORY: {}, COMM: {}, METRICS: {}}
    for rank in range(2):
        slow = 1.0 if rank else 0.9
        for step in range(steps):
            phases = {
                "forward_ns": int(forward_ms * MS * factors[step] * slow),
                "backward_ns": int(backward_ms * MS * factors[step] * slow),
                "reduce_wait_ns": int(wait_ms * MS * factors[step] * slow),
                "optimizer_ns": int(10 * MS * factors[step] * slow),
            }
            skip = step in skipped
            apart = 1.5 if loss_from is not None and step >= loss_from else 1.0
            row = StepRow(
                step=step,
                begin_ns=step * 100 * MS,
                wall_ns=sum(phases.values()),
                samples=samples,
                loss=(final_loss + 9 * 0.97**step) * apart,
                loss_scale=1024.0,
                loss_scale_next=1024.0,
                skipped=skip,
                skip_reason=SkipReason.OVERFLOW if skip else None,
                profiled=step in profiled,
                **phases,
            )
            memory = MemoryRow(
                step=step,
                device_params_bytes=params_bytes,
                device_activations_bytes=3_000_000,
                peak_rss_bytes=10**9,
            )
            comm = CommRow(
                step=step,
                phase=Phase.BACKWARD,
                op=CollectiveOp.REDUCE_SCATTER,
                wire_op=CollectiveOp.ALL_TO_ALL,
                group_size=2,
                dtype="fp16",
                calls=4,
                logical_bytes=2 * wire_bytes,
                wire_bytes=wire_bytes,
                busy_ns=12 * MS,
                exposed_ns=int(wait_ms * MS),
            )
            tables[STEPS].setdefault(rank, []).append(row)
            tables[MEMORY].setdefault(rank, []).append(memory)
            tables[COMM].setdefault(rank, []).append(comm)
        tables[METRICS][rank] = [MetricRow(step=steps - 1, name="accuracy", value=accuracy)]
    return tables


def made_run(name="run", *, facts=None, status=RunStatus.FINISHED, **rows):
    """A measured run; `facts` go to its manifest, the rest to its rows."""
    tables = {table: table_of(table, by_rank) for table, by_rank in rows_of_run(**rows).items()}
    return measure_run(
        tables, name=name, path=f"runs/{name}", status=status, manifest=manifest(**(facts or {}))
    )


def category_of(pair, category):
    wanted = MemoryCategory(category)
    return next(item for item in pair.memory if item.category is wanted)
