"""Phases on a device: at the moments when it gets to them, and no moment waited for."""

from collections import deque

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.device_time import DeviceClock, clock_of
from engine.marks import OnDevice, StepTime
from engine.tracing import PhaseClock
from probe.schema.vocabulary import Phase
from tests.telemetry.simulated import Device

MS = 1_000_000


def resolved(device: Device, clock: DeviceClock) -> StepTime:
    """End the step, let the device finish, and look."""
    clock.turn_over()
    step = clock.take_on_device()
    assert step is not None
    device.host_waits()
    assert step.is_done()
    return step.resolve()


def test_a_phase_lasts_as_long_as_the_device_works_on_it() -> None:
    device = Device()
    with device.clock() as clock:
        for phase, work_ms in ((Phase.FORWARD, 30), (Phase.BACKWARD, 60), (Phase.OPTIMIZER, 10)):
            with clock.phase(phase):
                device.host(1 * MS)
                device.asked(work_ms * MS)
        time = resolved(device, clock)
    # THEN the host's share shows only where the device had nothing to do yet
    assert time.phase_ns[Phase.FORWARD] == 31 * MS
    assert time.phase_ns[Phase.BACKWARD] == 60 * MS
    assert time.phase_ns[Phase.OPTIMIZER] == 10 * MS
    assert time.wall_ns == 101 * MS


def test_loading_data_counts_from_where_the_device_has_run_dry() -> None:
    device = Device()
    with device.clock() as clock:
        with clock.phase(Phase.OPTIMIZER):
            device.asked(60 * MS)
        with clock.phase(Phase.DATA):
            device.host(100 * MS)
        time = resolved(device, clock)
    assert time.phase_ns[Phase.OPTIMIZER] == 60 * MS
    assert time.phase_ns[Phase.DATA] == 40 * MS


def test_a_phase_within_another_takes_its_time_away() -> None:
    device = Device()
    with device.clock() as clock:
        with clock.phase(Phase.BACKWARD):
            device.asked(20 * MS)
            with clock.phase(Phase.REDUCE_WAIT):
                device.asked(5 * MS)
            device.asked(30 * MS)
        time = resolved(device, clock)
    assert (time.phase_ns[Phase.BACKWARD], time.phase_ns[Phase.REDUCE_WAIT]) == (50 * MS, 5 * MS)


def test_the_scripts_own_loss_belongs_to_forward() -> None:
    device = Device()
    with device.clock() as clock:
        with clock.phase(Phase.DATA):
            device.host(6 * MS)
        with clock.phase(Phase.FORWARD):
            device.asked(20 * MS)
        device.asked(3 * MS)
        clock.claim(Phase.FORWARD)
        with clock.phase(Phase.BACKWARD):
            device.asked(40 * MS)
        device.asked(2 * MS)
        time = resolved(device, clock)
    assert (time.phase_ns[Phase.FORWARD], time.phase_ns[Phase.OTHER]) == (23 * MS, 2 * MS)
    assert time.phase_ns[Phase.DATA] == 6 * MS


def test_what_is_computed_again_is_a_part_of_backward() -> None:
    device = Device()
    with device.clock() as clock:
        with clock.phase(Phase.BACKWARD):
            device.asked(10 * MS)
            clock.spent_ns(Phase.BACKWARD)
            clock.computes_again = True
            device.asked(7 * MS)
            with clock.phase(Phase.GATHER_WAIT):
                device.asked(1 * MS)
            clock.spent_ns(Phase.BACKWARD)
            clock.computes_again = False
            device.asked(4 * MS)
        time = resolved(device, clock)
    assert (time.phase_ns[Phase.BACKWARD], time.recompute_ns) == (21 * MS, 7 * MS)


def test_a_wait_within_a_phase_is_dated() -> None:
    device = Device()
    with device.clock() as clock:
        device.asked(10 * MS)
        before = clock.mark()
        device.asked(4 * MS)
        after = clock.mark()
        device.host_waits()
        time = resolved(device, clock)
    assert before is not None and after is not None
    assert after.reached_ns - before.reached_ns == 4 * MS
    assert before.reached_ns == time.began_ns + 10 * MS


def test_a_step_is_not_done_before_the_device_is() -> None:
    device = Device()
    with device.clock() as clock:
        with clock.phase(Phase.FORWARD):
            device.asked(50 * MS)
        clock.turn_over()
        step = clock.take_on_device()
        assert step is not None and not step.is_done()
        device.host(49 * MS)
        assert not step.is_done()
        device.host(1 * MS)
        assert step.is_done()


def test_events_are_used_again() -> None:
    device = Device()
    with device.clock() as clock:
        counts = []
        for _ in range(5):
            with clock.phase(Phase.FORWARD):
                device.asked(5 * MS)
                clock.mark()
            resolved(device, clock)
            counts.append(device.events)
    assert counts[1:] == counts[1:2] * 4


def test_nothing_is_left_within_a_capture() -> None:
    device = Device()
    with device.clock() as clock:
        device.captures = True
        events = device.events
        with clock.phase(Phase.FORWARD):
            assert clock.mark() is None
        assert device.events == events
        device.captures = False
        with clock.phase(Phase.BACKWARD):
            device.asked(5 * MS)
        time = resolved(device, clock)
    assert time.wall_ns == sum(time.phase_ns.values()) == 5 * MS


act = st.one_of(
    st.tuples(st.just("host"), st.integers(0, 3 * MS)),
    st.tuples(st.just("asked"), st.integers(0, 3 * MS)),
    st.tuples(st.just("waits"), st.just(0)),
    st.tuples(st.just("claim"), st.just(0)),
    st.tuples(st.just("mark"), st.just(0)),
    st.tuples(st.sampled_from([phase.value for phase in Phase]), st.just(0)),
    st.tuples(st.just("leave"), st.just(0)),
)


@settings(max_examples=150, deadline=None)
@given(steps=st.lists(st.lists(act, max_size=15), min_size=1, max_size=4))
def test_phases_sum_to_the_wall_time_and_steps_to_the_whole(
    steps: list[list[tuple[str, int]]],
) -> None:
    device = Device()
    with device.clock() as clock:
        began_ns = device.now_ns
        waiting: deque[tuple[OnDevice, int, int]] = deque()
        times = []
        for acts in steps:
            spans = []
            for what, amount in acts:
                match what:
                    case "host":
                        device.host(amount)
                    case "asked":
                        device.asked(amount)
                    case "waits":
                        device.host_waits()
                    case "claim":
                        clock.claim(Phase.FORWARD)
                    case "mark":
                        clock.mark()
                    case "leave" if spans:
                        spans.pop().__exit__(None, None, None)
                    case "leave":
                        pass
                    case phase:
                        spans.append(clock.phase(Phase(phase)))
                        spans[-1].__enter__()
            while spans:
                spans.pop().__exit__(None, None, None)
            clock.turn_over()
            step = clock.take_on_device()
            assert step is not None
            waiting.append((step, device.now_ns, max(device.free_at_ns, device.now_ns)))
            device.host(MS)
            # Their events serve the steps after them.
            while waiting and waiting[0][0].is_done():
                done, *ended_ns = waiting.popleft()
                times.append((done.resolve(), *ended_ns))
        device.host_waits()
        times += [(step.resolve(), *ended_ns) for step, *ended_ns in waiting]
        for time, host_ended_ns, device_ended_ns in times:
            assert sum(time.phase_ns.values()) == time.wall_ns
            assert min(time.phase_ns.values()) >= 0
            # Early at most, and never so early that the host was not yet there.
            assert host_ended_ns <= time.began_ns + time.wall_ns <= device_ended_ns
        assert began_ns + sum(time.wall_ns for time, *_ in times) == times[-1][2]


def test_events_of_cuda_go_into_the_stream_of_the_models_device(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class CudaEvent:
        def __init__(self, *, enable_timing: bool) -> None:
            assert enable_timing

        def record(self, stream: object) -> None:
            recorded.append(stream)

    recorded: list[object] = []
    monkeypatch.setattr(torch.cuda, "Event", CudaEvent)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: f"stream of {device}")
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    clock = clock_of(torch.device("cuda", 1))
    with clock.phase(Phase.FORWARD):
        pass
    assert recorded == ["stream of cuda:1"] * 3
    assert type(clock_of(torch.device("cpu"))) is PhaseClock
