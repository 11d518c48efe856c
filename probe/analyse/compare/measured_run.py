"""What a comparison takes from one run: read once, in as few columns as will do."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from probe.analyse.communication.theory import TrafficBeside, traffic_beside_theory
from probe.analyse.communication.use import COMM_COLUMNS, Communication, communication
from probe.analyse.compare.loss_curve import LossCurve, final_loss, loss_curve
from probe.analyse.compare.operator_shifts import TracedTime
from probe.analyse.compare.setup import Setup, setup_of
from probe.analyse.memory.theory import Beside, memory_beside_theory
from probe.analyse.memory.use import USE_COLUMNS, MemoryUse, memory_use
from probe.analyse.statistics.median import MedianEstimate, estimate_median
from probe.analyse.steps.steps import COUNTING_COLUMNS, CountedSteps, counted_steps, last_attempts
from probe.schema.documents import Manifest
from probe.schema.tables import COMM, MEMORY, METRICS, STEPS, Table
from probe.schema.vocabulary import RSS_METRIC, Phase, RunStatus

COLUMNS: Mapping[Table, tuple[str, ...]] = {
    STEPS: (*COUNTING_COLUMNS, "loss", "loss_scale_next"),
    MEMORY: USE_COLUMNS,
    COMM: COMM_COLUMNS,
    METRICS: ("rank", "step", "name", "value"),
}
"""What is read of each table."""


@dataclass(frozen=True, kw_only=True, eq=False)
class MeasuredRun:
    """One run in the figures that runs are compared by; None where it does not tell."""

    name: str
    path: str
    status: RunStatus
    manifest: Manifest
    setup: Setup
    counted: CountedSteps
    step_time: MedianEstimate | None
    """Nanoseconds of a counted step, on its slowest rank."""
    throughput: MedianEstimate | None
    """Tokens a second, or samples where tokens are not told, of all ranks."""
    throughput_of: str
    """tokens, samples or nothing."""
    exposed: MedianEstimate | None
    """Nanoseconds of a counted step in which its slowest rank stood still for communication."""
    exposed_ns: float | None
    """Its median, also where it is zero in some steps and has no interval."""
    skipped_steps: int
    """Steps that any rank skipped."""
    last_scale: float | None
    memory: MemoryUse | None
    beside: tuple[Beside, ...]
    """Memory by category with the closed form."""
    traffic: Communication | None
    traffic_beside: tuple[TrafficBeside, ...]
    """What was reduced and gathered with the closed form."""
    losses: LossCurve
    final_loss: float | None
    metrics: Mapping[str, float]
    """The last value of each metric that the user logged."""
    profiled_throughout: bool
    """Every step was profiled, so that profiled steps count: a run made of traces."""
    traced: TracedTime | None
    problems: int
    """Errors and warnings that the run and the tables read for this have."""


def measure_run(
    tables: Mapping[Table, pa.Table],
    *,
    name: str,
    manifest: Manifest,
    path: str = "",
    status: RunStatus = RunStatus.FINISHED,
    engine: str = "",
    traced: TracedTime | None = None,
    problems: int = 0,
) -> MeasuredRun:
    """Measure a run from its tables, each with at least the columns named above."""
    steps, _ = last_attempts(tables[STEPS])
    throughout = bool(pc.all(steps["profiled"], min_count=1).as_py())
    counted = counted_steps(_unprofiled(tables[STEPS]) if throughout else tables[STEPS])
    profiled = pc.unique(steps.filter(steps["profiled"])["step"]).to_pylist()
    memory = memory_use(tables[MEMORY], profiled_steps=profiled)
    losses = loss_curve(steps)
    step_time = estimate_median(counted.wall_ns.astype(np.float64))
    throughput, throughput_of = _throughput(counted, step_time)
    traffic = communication(tables[COMM], counted)
    waits = counted.phase_ns[Phase.GATHER_WAIT] + counted.phase_ns[Phase.REDUCE_WAIT]
    return MeasuredRun(
        name=name,
        path=path,
        status=status,
        manifest=manifest,
        setup=setup_of(manifest, engine=engine),
        counted=counted,
        step_time=step_time,
        throughput=throughput,
        throughput_of=throughput_of,
        exposed=estimate_median(waits.astype(np.float64)),
        exposed_ns=float(np.median(waits)) if len(waits) else None,
        skipped_steps=len(pc.unique(steps.filter(steps["skipped"])["step"])),
        last_scale=_last_scale(steps),
        memory=memory,
        beside=memory_beside_theory(memory.peak, manifest) if memory else (),
        traffic=traffic,
        traffic_beside=traffic_beside_theory(traffic, manifest),
        losses=losses,
        final_loss=final_loss(losses),
        metrics=_last_metrics(tables[METRICS]),
        profiled_throughout=throughout,
        traced=traced,
        problems=problems,
    )


def _unprofiled(steps: pa.Table) -> pa.Table:
    """The same rows with none flagged as profiled."""
    at = steps.column_names.index("profiled")
    return steps.set_column(at, "profiled", pa.array(np.zeros(steps.num_rows, dtype=bool)))


def _throughput(
    counted: CountedSteps, step_time: MedianEstimate | None
) -> tuple[MedianEstimate | None, str]:
    for name, amounts in (("tokens", counted.tokens), ("samples", counted.samples)):
        if amounts is None or step_time is None or not amounts.all():
            continue
        if amounts.min() == amounts.max():
            # One over the step time: the same error without another bootstrap.
            return replace(step_time, median=int(amounts[0]) / (step_time.median / 1e9)), name
        return estimate_median(amounts / (counted.wall_ns / 1e9)), name
    return None, ""


def _last_scale(steps: pa.Table) -> float | None:
    stated = steps.filter(pc.is_valid(steps["loss_scale_next"]))
    if not stated.num_rows:
        return None
    last = stated.filter(pc.equal(stated["step"], pc.max(stated["step"])))
    return float(last["loss_scale_next"][0].as_py())


def _last_metrics(metrics: pa.Table) -> dict[str, float]:
    """The value of each metric in its last step, of the lowest rank that logged it then."""
    names = metrics["name"].combine_chunks().dictionary_encode()
    code, step = names.indices.to_numpy(), metrics["step"].to_numpy()
    # The last of each name stands at its end; of equals the one that was written last.
    order = np.lexsort((np.arange(len(code)), -metrics["rank"].to_numpy(), step, code))
    is_last = np.ones(len(order), dtype=bool)
    is_last[:-1] = code[order][1:] != code[order][:-1]
    last = metrics.take(pa.array(order[is_last]))
    told = zip(last["name"].to_pylist(), last["value"].to_pylist(), strict=True)
    return dict(sorted((name, value) for name, value in told if name != RSS_METRIC))
