"""Reading a run for a comparison: the columns that it needs, the first trace, the problems."""

from probe.analyse.compare.measured_run import COLUMNS, MeasuredRun, measure_run
from probe.analyse.compare.operator_shifts import TracedTime, traced_time
from probe.read.run import Run
from probe.read.run_traces import find_traces, load_trace
from probe.schema.vocabulary import Severity


def read_run(run: Run) -> MeasuredRun:
    """Read and measure a run."""
    loaded = {table: run.table(table, columns=columns) for table, columns in COLUMNS.items()}
    found = {*run.problems, *(problem for item in loaded.values() for problem in item.problems)}
    return measure_run(
        {table: item.table for table, item in loaded.items()},
        name=run.name,
        path=str(run.path),
        status=run.verdict.status,
        manifest=run.manifest,
        engine=next((header.engine for header in run.headers.values()), ""),
        traced=_first_window(run),
        problems=sum(item.severity is not Severity.INFO for item in found),
    )


def _first_window(run: Run) -> TracedTime | None:
    """The first profiled window of the lowest rank that has events; None without one."""
    for file in find_traces(run.path):
        trace = load_trace(run.path, file)
        if len(trace.events):
            return traced_time(trace)
    return None
