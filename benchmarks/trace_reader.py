"""One turn of `trace_reading`: a fresh process that reads one trace once and says what it cost."""

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.memory import forget_peak, peak_resident_bytes, resident_bytes

Numbers = dict[str, float]
Reading = Callable[[Path], Callable[[], Numbers]]
"""Does the work on a trace; the function that it gives back tells the numbers, unmeasured."""


def prepare_ours() -> Reading:
    """Import everything of ours."""
    import numpy as np

    from probe.analyse.trace.activity import device_events, find_activity
    from probe.analyse.trace.breakdown import break_down
    from probe.analyse.trace.kernels import kernel_table
    from probe.analyse.trace.launches import find_launches
    from probe.analyse.trace.steps import TraceStep, find_steps
    from probe.read.trace import NONE, Events, Trace
    from probe.read.trace_file import read_trace

    def read(path: Path) -> Callable[[], Numbers]:
        trace = read_trace(path)
        steps = find_steps(trace)
        activity = find_activity(trace)
        breakdowns = break_down(activity, steps.steps)
        kernels = kernel_table(trace)
        assert breakdowns
        assert kernels
        return lambda: numbers(as_hta_has_it(trace))

    def as_hta_has_it(trace: Trace) -> Trace:
        """Device events launched before the last step, rounded inward to microseconds."""
        import dataclasses

        steps = find_steps(trace).steps
        launches = find_launches(trace)
        known = launches.call != NONE
        issued = trace.events.start_ns[launches.call[known]]
        last_begins_ns = -(-steps[-1].host_begin_ns // 1000) * 1000
        kept = launches.device[known][-(-issued // 1000) * 1000 < last_begins_ns]
        events = trace.events.select(np.sort(kept))
        starts = -(-events.start_ns // 1000) * 1000
        lengths = events.end_ns // 1000 * 1000 - starts
        rounded: Events = dataclasses.replace(events, start_ns=starts, duration_ns=lengths)
        return dataclasses.replace(trace, events=rounded)

    def numbers(trace: Trace) -> Numbers:
        activity = find_activity(trace)
        events = trace.events.select(device_events(trace))
        begin_ns, end_ns = int(events.start_ns.min()), int(events.end_ns.max())
        step = TraceStep(
            number=0, begin_ns=begin_ns, end_ns=end_ns, host_begin_ns=begin_ns, host_end_ns=end_ns
        )
        (parts,) = break_down(activity, [step])
        found = {
            "kernel_time": parts.wall_ns / 1000,
            "compute_time": parts.computation_ns / 1000,
            "non_compute_time": (parts.exposed_comm_ns + parts.exposed_memcpy_ns) / 1000,
            "idle_time": parts.idle_ns / 1000,
            "overlap_percent": round(100 * (parts.overlap or 0), 2),
        }
        for row in kernel_table(trace):
            found[f"sum {row.name}"] = row.total_ns / 1000
            found[f"max {row.name}"] = row.longest_ns / 1000
            found[f"min {row.name}"] = row.shortest_ns / 1000
            found[f"mean {row.name}"] = row.mean_ns / 1000
            found[f"std {row.name}"] = row.deviation_ns / 1000
        return found

    return read


def prepare_hta() -> Reading:
    """Import everything of HolisticTraceAnalysis, and keep it quiet."""
    import logging

    from hta.trace_analysis import TraceAnalysis

    logging.disable(logging.CRITICAL)

    def read(path: Path) -> Callable[[], Numbers]:
        analysis = TraceAnalysis(trace_files={0: str(path.resolve())}, trace_dir="/")
        breakdown = analysis.get_temporal_breakdown(visualize=False)
        overlap = analysis.get_comm_comp_overlap(visualize=False)
        _, kernels = analysis.get_gpu_kernel_breakdown(visualize=False, num_kernels=10**9)
        return lambda: numbers(breakdown, overlap, kernels)

    def numbers(breakdown: Any, overlap: Any, kernels: Any) -> Numbers:
        parts = ("kernel_time", "compute_time", "non_compute_time", "idle_time")
        found = {part: float(breakdown[f"{part}(us)"].iloc[0]) for part in parts}
        found["overlap_percent"] = float(overlap["comp_comm_overlap_pctg"].iloc[0])
        for row in kernels.to_dict("records"):
            for word, column in (
                ("sum", "sum (us)"),
                ("max", "max (us)"),
                ("min", "min (us)"),
                ("mean", "mean (us)"),
                ("std", "stddev"),
            ):
                found[f"{word} {row['name']}"] = float(row[column])
        return found

    return read


def main(contestant: str, path: Path) -> None:
    """Take the turn and print its figures as one line of JSON."""
    read = {"zeroprobe": prepare_ours, "hta": prepare_hta}[contestant]()
    forget_peak()
    base_bytes = resident_bytes()
    wall, processor = time.perf_counter(), time.process_time()
    tell = read(path)
    figures = {
        "wall_s": time.perf_counter() - wall,
        "processor_s": time.process_time() - processor,
        "growth_bytes": peak_resident_bytes() - base_bytes,
    }
    print(json.dumps({**figures, "numbers": tell()}))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
