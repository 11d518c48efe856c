"""What a trace alone can say in the tables of a run: steps, collectives and their calls.

Every step is flagged as profiled, since it is one; losses, scales and memory are not in a trace.
Times are on the trace's own clock, which is the wall clock where the profiler knew it.
"""

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from probe.analyse.trace.activity import Activity, find_activity
from probe.analyse.trace.collectives import (
    CollectiveCalls,
    find_collectives,
    operation_of,
    payload_bytes,
)
from probe.analyse.trace.gaps import find_gaps
from probe.analyse.trace.intervals import merge, subtract
from probe.analyse.trace.launches import find_launches
from probe.analyse.trace.phases import find_host_phases, step_phases
from probe.analyse.trace.steps import StepMark, TraceSteps, find_steps
from probe.read.trace import NONE, Int64s, Trace
from probe.schema.rows import CommCallRow, CommRow, Row, StepRow
from probe.schema.vocabulary import CollectiveOp, Phase


@dataclass(frozen=True, kw_only=True)
class TraceRows:
    """The rows of one trace."""

    rows: tuple[Row, ...]
    mark: StepMark
    steps: tuple[int, ...]
    """Numbers of the steps."""
    unnamed_collectives: int
    """Collectives whose operation the trace does not tell; no row can hold them."""


def trace_rows(trace: Trace) -> TraceRows:
    """The rows of one rank's trace."""
    found = find_steps(trace)
    activity = find_activity(trace)
    collectives = find_collectives(trace)
    calls, unnamed = _comm_calls(trace, activity, collectives, found)
    return TraceRows(
        rows=(*_step_rows(trace, activity, collectives, found), *_comm_rows(calls), *calls.rows),
        mark=found.mark,
        steps=tuple(step.number for step in found.steps),
        unnamed_collectives=unnamed,
    )


def _step_rows(
    trace: Trace, activity: Activity, collectives: CollectiveCalls, found: TraceSteps
) -> list[StepRow]:
    gaps = find_gaps(trace, activity, found.steps)
    phases = step_phases(trace, activity, collectives, found.steps, gaps)
    return [
        StepRow(
            step=step.number,
            begin_ns=step.begin_ns,
            wall_ns=step.wall_ns,
            data_ns=spent[Phase.DATA],
            forward_ns=spent[Phase.FORWARD],
            backward_ns=spent[Phase.BACKWARD],
            gather_wait_ns=spent[Phase.GATHER_WAIT],
            reduce_wait_ns=spent[Phase.REDUCE_WAIT],
            optimizer_ns=spent[Phase.OPTIMIZER],
            other_ns=spent[Phase.OTHER],
            profiled=True,
        )
        for step, spent in zip(found.steps, phases, strict=True)
    ]


@dataclass(frozen=True, kw_only=True)
class _Calls:
    """The calls within steps, and the measures of each."""

    rows: list[CommCallRow]
    activity: Activity


def _comm_calls(
    trace: Trace, activity: Activity, collectives: CollectiveCalls, found: TraceSteps
) -> tuple[_Calls, int]:
    """A row for each collective that a step issued; sequences count from the first of them."""
    issued_ns = _issued_ns(trace, collectives)
    places = found.of_moments(issued_ns)
    phases = find_host_phases(trace).of_moments(issued_ns)
    starts = trace.events.start_ns[collectives.positions]
    ends = trace.events.end_ns[collectives.positions]
    exposed = subtract(activity.communication, activity.computation)
    exposed_ns = exposed.measure_within(starts, ends)
    sequences: dict[str, int] = defaultdict(int)
    rows: list[CommCallRow] = []
    unnamed = 0
    for number in np.argsort(starts, kind="stable"):
        facts = collectives.known[collectives.facts[number]]
        op = operation_of(facts.name)
        if places[number] == NONE:
            continue
        if op is None:
            unnamed += 1
            continue
        group = facts.group or "world"
        rows.append(
            CommCallRow(
                step=found.steps[places[number]].number,
                sequence=sequences[group],
                phase=phases[number],
                op=op,
                wire_op=op,
                group=group,
                group_size=facts.group_size or trace.facts.world_size or 1,
                dtype=facts.dtype,
                logical_bytes=payload_bytes(facts) or 0,
                enqueue_ns=int(issued_ns[number]),
                start_ns=int(starts[number]),
                end_ns=int(ends[number]),
                exposed_ns=int(exposed_ns[number]),
            )
        )
        sequences[group] += 1
    return _Calls(rows=rows, activity=activity), unnamed


def _issued_ns(trace: Trace, collectives: CollectiveCalls) -> Int64s:
    """When each collective was asked for: by its launch, or by its own begin."""
    issued = trace.events.start_ns[collectives.positions].copy()
    launches = find_launches(trace)
    call_of = np.full(len(trace.events), NONE, np.int64)
    call_of[launches.device] = launches.call
    calls = call_of[collectives.positions]
    issued[calls != NONE] = trace.events.start_ns[calls[calls != NONE]]
    return issued


def _comm_rows(calls: _Calls) -> list[CommRow]:
    """The calls of each operation, phase, group and type of a step, added up."""
    together: dict[tuple[int, Phase, CollectiveOp, str, int, str], list[CommCallRow]]
    together = defaultdict(list)
    for row in calls.rows:
        key = (row.step, row.phase, row.op, row.group, row.group_size, row.dtype)
        together[key].append(row)
    computation = calls.activity.computation
    rows = []
    for (step, phase, op, group, group_size, dtype), members in together.items():
        busy = merge(
            np.array([row.start_ns for row in members]), np.array([row.end_ns for row in members])
        )
        rows.append(
            CommRow(
                step=step,
                phase=phase,
                op=op,
                wire_op=op,
                group=group,
                group_size=group_size,
                dtype=dtype,
                calls=len(members),
                logical_bytes=sum(row.logical_bytes for row in members),
                busy_ns=busy.total_ns,
                exposed_ns=subtract(busy, computation).total_ns,
            )
        )
    return rows
