"""Why a traced step took its time: what it idled for, and the critical path through it."""

from made_traces import US, MadeTrace, cpu_trace, trace_of

from probe.analyse.trace.activity import find_activity
from probe.analyse.trace.critical_path import PathKind, critical_path
from probe.analyse.trace.gaps import GapCause, find_gaps
from probe.analyse.trace.steps import find_steps


def test_idle_time_is_told_by_its_cause() -> None:
    made = MadeTrace().step(0, 0, 200)
    made.op("aten::mm", 0, 8).launch(2, "k1", 10, 20)
    # Nothing is launched until 50: the host computes no operator until 40, then one.
    made.op("aten::mm", 40, 60).launch(48, "k2", 53, 60)
    # Launched at 50, and begun 40 us after the stream was free.
    made.launch(50, "k3", 100, 110)
    # The host waits in a synchronising call until 130, and launches at 140.
    made.add("cuda_runtime", "cudaDeviceSynchronize", 100, 130).launch(140, "k4", 145, 150)
    trace = trace_of(made)
    (gaps,) = find_gaps(trace, find_activity(trace), find_steps(trace).steps)
    assert gaps.by_cause_ns == {
        GapCause.SYNCHRONISING: 20 * US,
        GapCause.DATA: 0,
        GapCause.LAUNCHING: (50 - 40 + 142 - 140) * US,
        GapCause.HOST: (40 - 20 + 140 - 130) * US,
        GapCause.DELAY: (53 - 50 + 145 - 142) * US,
        GapCause.DEPENDENCY: 40 * US,
    }
    assert sum(gaps.by_cause_ns.values()) == gaps.idle_ns
    assert (gaps.count, gaps.longest_ns) == (3, 40 * US)
    assert gaps.main_cause is GapCause.DEPENDENCY


def test_waiting_for_data_is_told_on_the_cpu() -> None:
    made = MadeTrace().step(0, 0, 100).op("aten::mm", 0, 30).op("aten::mm", 80, 100)
    made.note("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 35, 75)
    trace = trace_of(made)
    (gaps,) = find_gaps(trace, find_activity(trace), find_steps(trace).steps)
    assert gaps.by_cause_ns[GapCause.DATA] == 40 * US
    assert gaps.by_cause_ns[GapCause.HOST] == 10 * US


def test_the_critical_path_goes_through_what_was_waited_for() -> None:
    made = MadeTrace().step(0, 0, 300)
    # The long chain: k1 on one stream, then the collective on another, then k3 that waited for it.
    made.launch(0, "k1", 10, 60).launch(3, "ncclDevKernel_AllReduce", 60, 150, stream=9)
    made.launch(6, "k2", 60, 90).launch(9, "k3", 152, 200)
    trace = trace_of(made)
    (step,) = find_steps(trace).steps
    path = critical_path(trace, step)
    assert path.by_kind_ns == {
        PathKind.COMPUTATION: 98 * US,
        PathKind.COMMUNICATION: 90 * US,
        PathKind.MEMCPY: 0,
        PathKind.HOST: 0,
        PathKind.DELAY: 2 * US,
    }
    assert list(path.by_name_ns.items()) == [
        ("ncclDevKernel_AllReduce", 90 * US),
        ("k1", 50 * US),
        ("k3", 48 * US),
    ]


def test_the_critical_path_follows_the_host_where_it_launched_late() -> None:
    made = MadeTrace().step(0, 0, 300).launch(0, "k1", 10, 60)
    made.add("cuda_runtime", "cudaStreamSynchronize", 20, 65).launch(120, "k2", 125, 150)
    trace = trace_of(made)
    (step,) = find_steps(trace).steps
    path = critical_path(trace, step)
    assert [(piece.kind, (piece.end_ns - piece.begin_ns) // US) for piece in path.pieces] == [
        (PathKind.COMPUTATION, 50),
        (PathKind.DELAY, 5),
        (PathKind.HOST, 122 - 65),
        (PathKind.DELAY, 3),
        (PathKind.COMPUTATION, 25),
    ]


def test_the_critical_path_of_a_cpu_step_goes_through_the_collective() -> None:
    trace = trace_of(cpu_trace())
    path = critical_path(trace, find_steps(trace).steps[0])
    assert [(piece.kind, (piece.end_ns - piece.begin_ns) // US) for piece in path.pieces] == [
        (PathKind.COMPUTATION, 30),
        (PathKind.HOST, 20),
        (PathKind.COMPUTATION, 10),
        (PathKind.COMMUNICATION, 5),
        (PathKind.COMPUTATION, 15),
        (PathKind.HOST, 20),
    ]
    made = MadeTrace().step(0, 0, 100).op("aten::mm", 0, 20).op("aten::mm", 80, 100)
    made.note("gloo:all_reduce", 22, 78, tid=2)
    trace = trace_of(made)
    path = critical_path(trace, find_steps(trace).steps[0])
    assert path.by_kind_ns[PathKind.COMMUNICATION] == 56 * US
    assert sum(path.by_kind_ns.values()) == 100 * US
