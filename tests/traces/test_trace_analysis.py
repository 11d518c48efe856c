"""What is understood of a trace, on traces whose truth is known."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_traces import US, MadeTrace, cpu_trace, device_trace, trace_of

from probe.analyse.trace.activity import ActivityKind, find_activity
from probe.analyse.trace.breakdown import Breakdown, add_up, break_down
from probe.analyse.trace.collectives import collective_table, element_bytes, operation_of
from probe.analyse.trace.critical_path import critical_path
from probe.analyse.trace.gaps import find_gaps
from probe.analyse.trace.intervals import intersect, merge, subtract, union
from probe.analyse.trace.kernels import kernel_table
from probe.analyse.trace.nesting import nest
from probe.analyse.trace.operators import Grouping, operator_table
from probe.analyse.trace.rows import trace_rows
from probe.analyse.trace.steps import StepMark, find_steps
from probe.analyse.trace.summary import summarise_trace
from probe.read.trace import Trace
from probe.schema.rows import CommCallRow, CommRow, StepRow
from probe.schema.vocabulary import CollectiveOp, Phase

BASE_NS = 1_700_000_000_000_000_000


def breakdowns(trace: Trace) -> tuple[Breakdown, ...]:
    return break_down(find_activity(trace), find_steps(trace).steps)


def test_device_steps_lie_on_the_device_s_timeline() -> None:
    found = find_steps(trace_of(device_trace()))
    assert found.mark is StepMark.PROFILER_STEP
    spans = [(s.number, s.begin_ns - BASE_NS, s.end_ns - BASE_NS) for s in found.steps]
    assert spans == [(5, 1000 * US, 1100 * US), (6, 1100 * US, 1170 * US)]
    assert [s.host_begin_ns - BASE_NS for s in found.steps] == [500 * US, 600 * US]


def test_the_breakdown_of_a_device_step() -> None:
    first, second = breakdowns(trace_of(device_trace()))
    assert first == Breakdown(
        computation_ns=50 * US,
        exposed_comm_ns=20 * US,
        exposed_memcpy_ns=0,
        idle_ns=30 * US,
        wall_ns=100 * US,
        comm_ns=30 * US,
        memcpy_ns=10 * US,
        overlapped_comm_ns=10 * US,
    )
    assert first.overlap == pytest.approx(1 / 3)
    assert (second.wall_ns, second.idle_ns) == (70 * US, 0)
    assert add_up([first, second]).wall_ns == 170 * US


def test_the_breakdown_of_a_cpu_step() -> None:
    for found in breakdowns(trace_of(cpu_trace())):
        assert found.wall_ns == 100 * US
        assert found.computation_ns == 55 * US
        assert found.exposed_comm_ns == 20 * US
        assert found.idle_ns == 25 * US
        assert found.overlapped_comm_ns == 15 * US
        assert found.memcpy_ns == 0


def test_memcpy_is_exposed_only_where_nothing_else_runs() -> None:
    made = MadeTrace().step(0, 0, 100)
    made.launch(1, "gemm", 10, 20).launch(2, "Memset (Device)", 15, 30, cat="gpu_memset", stream=8)
    made.launch(3, "ncclKernel_AllReduce", 25, 28, stream=9)
    (found,) = breakdowns(trace_of(made))
    assert found.exposed_memcpy_ns == (25 - 20 + 30 - 28) * US
    assert found.memcpy_ns == 15 * US


def test_without_profiler_steps_our_phases_tell_them_apart() -> None:
    made = MadeTrace()
    for begin in (0, 100):
        made.note("forward", begin + 5, begin + 30).note("backward", begin + 30, begin + 60)
        made.note("optimizer", begin + 60, begin + 90).op("aten::mm", begin + 10, begin + 20)
    found = find_steps(trace_of(made))
    assert found.mark is StepMark.PHASES
    assert [(s.begin_ns, s.end_ns) for s in found.steps] == [
        (5 * US, 90 * US),
        (105 * US, 190 * US),
    ]


def test_without_any_mark_the_whole_trace_is_one_step() -> None:
    found = find_steps(trace_of(MadeTrace().op("a", 3, 5).op("b", 7, 9)))
    assert found.mark is StepMark.WHOLE_TRACE
    assert [(s.number, s.begin_ns, s.end_ns) for s in found.steps] == [(0, 3 * US, 9 * US)]
    assert find_steps(trace_of(MadeTrace())).steps == ()


def test_operators_have_own_time_and_device_time_once() -> None:
    rows = {row.name: row for row in operator_table(trace_of(device_trace()))}
    linear, addmm = rows["aten::linear"], rows["aten::addmm"]
    assert (linear.calls, linear.total_ns, linear.own_ns) == (2, 40 * US, 16 * US)
    assert (addmm.total_ns, addmm.own_ns, addmm.device_ns) == (24 * US, 24 * US, 80 * US)
    assert linear.device_ns == 0
    assert rows["record_param_comms"].device_ns == 60 * US
    assert rows["Optimizer.step#AdamW.step"].device_ns == 20 * US


def test_operators_that_only_touch_do_not_nest_and_those_of_no_length_do() -> None:
    made = MadeTrace().op("a", 0, 10).op("b", 10, 30).op("c", 10, 10).op("d", 30, 31)
    made.op("e", 5, 8, tid=2)
    rows = {row.name: row.own_ns // US for row in operator_table(trace_of(made))}
    assert rows == {"a": 10, "b": 20, "c": 0, "d": 1, "e": 3}
    events = trace_of(made).events
    assert nest(events).depth.tolist() == [0, 0, 1, 0, 0]


def test_what_no_step_launched_is_in_no_step_s_window() -> None:
    made = device_trace().launch(900, "late", 1400, 1500)
    assert find_steps(trace_of(made)).steps[-1].end_ns == BASE_NS + 1170 * US


def test_operators_are_told_apart_by_shapes_when_asked() -> None:
    made = MadeTrace()
    made.op("mm", 0, 4, Input_Dims=[[2, 2]], Input_type=["float"])
    made.op("mm", 5, 6, Input_Dims=[[3, 3]], Input_type=["float"])
    made.op("mm", 7, 9, Input_Dims=[[2, 2]], Input_type=["float"])
    trace = trace_of(made)
    assert len(operator_table(trace)) == 1
    rows = operator_table(trace, grouping=Grouping.SIGNATURE)
    shapes = [row.signature.shapes if row.signature else "" for row in rows]
    assert list(zip(shapes, [row.calls for row in rows], strict=True)) == [
        ("[[2,2]]", 2),
        ("[[3,3]]", 1),
    ]


def test_kernels_have_count_sum_extremes_and_deviation() -> None:
    made = MadeTrace()
    for number, length in enumerate((4, 6, 11)):
        made.launch(number * 20, "gemm", number * 20 + 5, number * 20 + 5 + length)
    made.launch(70, "ncclDevKernel_Broadcast", 80, 90, stream=9)
    gemm, nccl = kernel_table(trace_of(made))
    assert (gemm.name, gemm.kind, gemm.calls) == ("gemm", ActivityKind.COMPUTATION, 3)
    assert (gemm.total_ns, gemm.shortest_ns, gemm.longest_ns) == (21 * US, 4 * US, 11 * US)
    assert gemm.mean_ns == 7 * US
    assert gemm.deviation_ns == pytest.approx(np.std([4, 6, 11], ddof=1) * US)
    assert (nccl.kind, nccl.deviation_ns) == (ActivityKind.COMMUNICATION, 0)


def test_collectives_have_sizes_and_bandwidths_where_the_trace_does() -> None:
    (row,) = collective_table(trace_of(device_trace()))
    assert (row.op, row.calls, row.size_bytes) == (CollectiveOp.ALL_REDUCE, 2, 4000)
    assert (row.group, row.group_size) == ("0", 2)
    assert row.algorithm_bandwidth == pytest.approx(4000 / 30e-6)
    assert row.bus_bandwidth == pytest.approx(4000 / 30e-6 * 2 * (2 - 1) / 2)
    (row,) = collective_table(trace_of(cpu_trace()))
    assert (row.op, row.size_bytes, row.shortest_ns) == (CollectiveOp.ALL_REDUCE, 1000, 35 * US)


def test_facts_of_a_collective_are_found_on_the_operator_around_its_launch() -> None:
    made = MadeTrace().op(
        "record_param_comms", 0, 20, Collective_name="_reduce_scatter_base", In_msg_nelems=100,
        Out_msg_nelems=25, Group_size=4, dtype="BFloat16", Process_Group_Name="dp",
    )  # fmt: skip
    made.note("nccl:_reduce_scatter_base", 1, 19).launch(5, "ncclDevKernel_ReduceScatter", 30, 40)
    made.note("nccl:all_to_all", 50, 60).launch(52, "ncclKernel_SendRecv", 70, 80)
    scatter, exchange = collective_table(trace_of(made))
    assert (scatter.op, scatter.size_bytes) == (CollectiveOp.REDUCE_SCATTER, 200)
    assert (exchange.op, exchange.size_bytes) == (CollectiveOp.ALL_TO_ALL, None)


@pytest.mark.parametrize(
    ("name", "op"),
    [
        ("_allgather_base", CollectiveOp.ALL_GATHER),
        ("ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(ncclDevKernelArgs)", "reduce_scatter"),
        ("ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)", CollectiveOp.ALL_REDUCE),
        ("gloo:all_to_all", CollectiveOp.ALL_TO_ALL),
        ("alltoallv", CollectiveOp.ALL_TO_ALL),
        ("ncclKernel_Broadcast_RING_LL", CollectiveOp.BROADCAST),
        ("ncclDevKernel_Reduce_Sum", CollectiveOp.REDUCE),
        ("something", None),
    ],
)
def test_operations_are_known_by_any_of_their_names(name: str, op: CollectiveOp | None) -> None:
    assert operation_of(name) == op


def test_widths_are_known_by_the_profiler_s_words() -> None:
    words = ("Float", "BFloat16", "c10::Half", "long int", "Float8_e4m3fn", "Opaque")
    assert [element_bytes(word) for word in words] == [4, 2, 2, 8, 1, None]


def test_the_rows_of_a_trace_keep_the_identity_of_phases() -> None:
    for made in (device_trace(), cpu_trace()):
        rows = trace_rows(trace_of(made)).rows
        steps = [row for row in rows if isinstance(row, StepRow)]
        assert len(steps) == 2
        for row in steps:
            assert row.profiled
            assert row.wall_ns == sum(getattr(row, f"{phase}_ns") for phase in Phase)
    step, _ = steps
    assert (step.forward_ns, step.backward_ns) == (30 * US, 25 * US)
    assert step.reduce_wait_ns == 20 * US


def test_phases_are_told_by_what_launched_the_work() -> None:
    made = MadeTrace().step(0, 0, 100)
    made.note("enumerate(DataLoader)#_Iter.__next__", 0, 20).op("aten::stack", 5, 15)
    made.op("aten::mm", 20, 40)
    made.op("autograd::engine::evaluate_function: MmBackward0", 40, 70).op("aten::mm", 45, 60)
    made.note("Optimizer.step#AdamW.step", 75, 95).op("aten::add_", 80, 90)
    (row,) = trace_rows(trace_of(made)).rows
    assert isinstance(row, StepRow)
    spent = (row.data_ns, row.forward_ns, row.backward_ns, row.optimizer_ns, row.other_ns)
    assert spent == (20 * US, 20 * US, 30 * US, 10 * US, 20 * US)


def test_the_rows_of_collectives_name_phase_size_and_exposure() -> None:
    rows = trace_rows(trace_of(device_trace())).rows
    comm = [row for row in rows if isinstance(row, CommRow)]
    assert [(row.step, row.op, row.calls, row.logical_bytes) for row in comm] == [
        (5, CollectiveOp.ALL_REDUCE, 1, 4000),
        (6, CollectiveOp.ALL_REDUCE, 1, 4000),
    ]
    assert (comm[0].busy_ns, comm[0].exposed_ns) == (30 * US, 20 * US)
    calls = [row for row in rows if isinstance(row, CommCallRow)]
    assert [row.sequence for row in calls] == [0, 1]
    assert calls[0].enqueue_ns == BASE_NS + 532 * US


moments = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 12)), max_size=12)


def as_set(spans: list[tuple[int, int]]) -> set[int]:
    return {moment for begin, length in spans for moment in range(begin, begin + length)}


@settings(max_examples=150, deadline=None)
@given(moments, moments, st.integers(-5, 70), st.integers(0, 40))
def test_interval_algebra_is_set_algebra(one, two, begin, length) -> None:
    def build(spans):
        starts = np.array([begin for begin, _ in spans], np.int64)
        return merge(starts, starts + np.array([length for _, length in spans], np.int64))

    a, b = build(one), build(two)
    window = set(range(begin, begin + length))
    for found, expected in (
        (a, as_set(one)),
        (union(a, b), as_set(one) | as_set(two)),
        (intersect(a, b), as_set(one) & as_set(two)),
        (subtract(a, b), as_set(one) - as_set(two)),
    ):
        spans = list(zip(found.starts.tolist(), (found.ends - found.starts).tolist(), strict=True))
        assert as_set(spans) == expected
        assert all(length > 0 for _, length in spans)
        assert (found.starts[1:] > found.ends[:-1]).all()
        begins, ends = np.array([begin]), np.array([begin + length])
        assert found.measure_within(begins, ends).tolist() == [len(expected & window)]
        assert found.clip(begin, begin + length).total_ns == len(expected & window)


spans = st.tuples(st.integers(0, 200), st.integers(0, 40))


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_the_parts_of_any_step_sum_to_its_wall_time(data: st.DataObject) -> None:
    made = MadeTrace()
    if data.draw(st.booleans()):
        made.step(1, 0, 100).step(2, 100, 220)
    for begin, length in data.draw(st.lists(spans, min_size=1, max_size=8)):
        name = data.draw(st.sampled_from(["aten::mm", "c10d::allreduce_", "Optimizer.step#SGD"]))
        made.op(name, begin, begin + length, tid=data.draw(st.integers(1, 2)))
    for begin, length in data.draw(st.lists(spans, max_size=8)):
        name = data.draw(st.sampled_from(["gemm", "ncclDevKernel_AllGather", "Memcpy HtoD"]))
        stream = data.draw(st.integers(7, 9))
        made.launch(
            begin, name, begin + data.draw(st.integers(0, 30)), begin + 30 + length, stream=stream
        )
    for begin, length in data.draw(st.lists(spans, max_size=3)):
        made.note("gloo:all_reduce", begin, begin + length, tid=5)
    trace = trace_of(made)
    activity, steps = find_activity(trace), find_steps(trace).steps
    gaps = find_gaps(trace, activity, steps)
    for found, step, gap in zip(break_down(activity, steps), steps, gaps, strict=True):
        parts = (
            found.computation_ns,
            found.exposed_comm_ns,
            found.exposed_memcpy_ns,
            found.idle_ns,
        )
        assert min(parts) >= 0
        assert sum(parts) == found.wall_ns == step.wall_ns
        assert gap.idle_ns == found.idle_ns == sum(gap.by_cause_ns.values())
        assert min(gap.by_cause_ns.values()) >= 0
        path = critical_path(trace, step)
        assert sum(path.by_kind_ns.values()) == step.wall_ns
        assert all(
            a.end_ns == b.begin_ns for a, b in zip(path.pieces, path.pieces[1:], strict=False)
        )
    for row in trace_rows(trace).rows:
        if isinstance(row, StepRow):
            assert row.wall_ns == sum(getattr(row, f"{phase}_ns") for phase in Phase)
            assert min(getattr(row, f"{phase}_ns") for phase in Phase) >= 0
    own = sum(row.own_ns for row in operator_table(trace))
    assert own <= sum(row.total_ns for row in operator_table(trace))


def test_the_summary_holds_every_analysis_even_of_nothing() -> None:
    found = summarise_trace(trace_of(device_trace()))
    assert (found.on_device, found.mark, found.events) == (True, StepMark.PROFILER_STEP, 26)
    assert found.total.wall_ns == sum(step.wall_ns for step in found.steps)
    assert len(found.paths) == len(found.gaps) == len(found.steps) == 2
    assert found.kernels
    assert found.operators
    assert found.collectives
    nothing = summarise_trace(trace_of(MadeTrace()))
    assert (nothing.steps, nothing.kernels, nothing.operators) == ((), (), ())
    assert nothing.total.wall_ns == 0
