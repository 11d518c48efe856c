"""Run directories for tests, made by the real writers, and rows taken back out of them."""

import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from probe.read.loading import Loaded
from probe.read.run import Run
from probe.record.rank import RankWriter
from probe.record.run import RunWriter
from probe.schema.documents import Header, Manifest
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
from probe.schema.tables import TABLE_BY_ROW, TABLES, Table
from probe.schema.vocabulary import (
    CollectiveOp,
    Direction,
    EventKind,
    MemoryCategory,
    NonFinite,
    Phase,
    RankState,
    RunStatus,
    TensorRole,
    Tier,
)


def step_row(step: int, **facts: Any) -> StepRow:
    return StepRow(step=step, **({"begin_ns": 1_000 * step, "wall_ns": 1_000} | facts))


def metric_row(step: int, value: float = 1.5, name: str = "accuracy") -> MetricRow:
    return MetricRow(step=step, name=name, value=value)


def rows_of_step(step: int) -> list[Row]:
    """One row of every table."""
    return [
        step_row(step, loss=math.nan if step == 1 else 2.0**-step, grad_norm=math.inf),
        CommRow(
            step=step,
            phase=Phase.FORWARD,
            op=CollectiveOp.ALL_GATHER,
            wire_op=CollectiveOp.ALL_GATHER,
            logical_bytes=2**53 + 1,
        ),
        CommCallRow(
            step=step,
            sequence=step,
            phase=Phase.BACKWARD,
            op=CollectiveOp.REDUCE_SCATTER,
            wire_op=CollectiveOp.ALL_TO_ALL,
        ),
        MemoryRow(step=step, device_params_bytes=1 << 40, rss_bytes=None),
        OverflowRow(step=step, role=TensorRole.GRADIENT, kind=NonFinite.BOTH, parameter="w"),
        NumericsRow(
            step=step, parameter="h.0.w", role=TensorRole.WEIGHT, exponent_elements=[0, step, 2]
        ),
        OffloadRow(
            step=step,
            tier=Tier.HOST,
            direction=Direction.FETCH,
            category=MemoryCategory.OPTIMIZER_STATES,
        ),
        EventRow(time_ns=step, kind=EventKind.REGION, step=None, message="<b>zwölf</b>\n"),
        metric_row(step),
    ]


def write_rank(
    run_dir: Path, rank: int, rows: Iterable[Row], state: RankState | None = RankState.CLOSED
) -> None:
    """What a rank writes from its start to its end; with no state, it never says goodbye."""
    writer = RankWriter(run_dir, Header(rank=rank))
    for row in rows:
        writer.write(row)
        writer.beat(step=getattr(row, "step", None))
    assert writer.stop_reason == ""
    if state is not None:
        writer.close(state)


def make_run(
    runs_dir: Path,
    rows: Mapping[int, Iterable[Row]] | None = None,
    *,
    ranks: int = 2,
    steps: int = 3,
    status: RunStatus = RunStatus.FINISHED,
    **facts: Any,
) -> Path:
    """A run that has ended; by default one row a table, a step and a rank."""
    if rows is None:
        rows = {
            rank: [row for step in range(steps) for row in rows_of_step(step)]
            for rank in range(ranks)
        }
    manifest = Manifest(**({"name": "test", "world_size": len(rows)} | facts))
    writer = RunWriter.create(runs_dir, manifest)
    for rank, of_rank in rows.items():
        write_rank(writer.path, rank, of_rank)
    if status is not RunStatus.RUNNING:
        writer.finish(status, dict.fromkeys(rows, 0))
    return writer.path


def plain(row: Row) -> dict[str, Any]:
    """A row as the reader gives it: words as text."""
    facts: dict[str, Any] = msgspec.to_builtins(row)
    return facts


def by_table(rows: Iterable[Row]) -> dict[str, list[dict[str, Any]]]:
    """Rows sorted into their tables."""
    sorted_rows: dict[str, list[dict[str, Any]]] = {table.name: [] for table in TABLES}
    for row in rows:
        sorted_rows[TABLE_BY_ROW[type(row)].name].append(plain(row))
    return sorted_rows


def rows_in(loaded: Loaded) -> list[dict[str, Any]]:
    """The rows of a loaded table."""
    rows: list[dict[str, Any]] = loaded.table.to_pylist()
    return rows


def everything(run: Run) -> dict[str, Loaded]:
    """All tables of a run."""
    return {table.name: run.table(table) for table in TABLES}


def same(left: object, right: object) -> bool:
    """Equality of plain values and of their types; nan equals nan and 0.0 is not -0.0."""
    return repr(left) == repr(right)


def assert_same(found: list[dict[str, Any]], meant: list[dict[str, Any]]) -> None:
    assert same(found, meant), f"{found}\nis not\n{meant}"


def file_of(run_dir: Path, table: Table, rank: int = 0) -> Path:
    return run_dir / f"rank_{rank:05d}" / table.file_name
