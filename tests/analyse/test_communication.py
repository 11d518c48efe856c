import msgspec
import pytest

from probe.analyse.communication.theory import TrafficResidual, traffic_beside_theory
from probe.analyse.communication.use import bus_factor, communication
from probe.analyse.communication.waiting import waiting
from probe.analyse.steps.steps import counted_steps
from probe.schema.documents import Manifest, ModelFacts, RunConfig
from probe.schema.rows import CommCallRow, CommRow, StepRow
from probe.schema.tables import COMM, COMM_CALLS, STEPS
from probe.schema.vocabulary import CollectiveOp, Phase, Precision
from tests.analyse.hand_built import table_of

GATHER, REDUCE, SCATTER = (
    CollectiveOp.ALL_GATHER,
    CollectiveOp.ALL_REDUCE,
    CollectiveOp.REDUCE_SCATTER,
)


def step(number, wall_ns=1000, **other):
    return StepRow(step=number, begin_ns=0, wall_ns=wall_ns, **other)


def steps_of(ranks=2, count=4, **other):
    return table_of(
        STEPS, {rank: [step(n, **other) for n in range(count)] for rank in range(ranks)}
    )


def comm(step, op=GATHER, *, phase=Phase.FORWARD, **other):
    return CommRow(step=step, phase=phase, op=op, **{"wire_op": op, "group_size": 4, **other})


def found(rows_by_rank, steps=None):
    counted = counted_steps(steps_of() if steps is None else steps)
    return communication(table_of(COMM, rows_by_rank), counted)


def test_figures_are_means_over_ranks_and_steps_that_count():
    rows = [
        comm(n, calls=2, logical_bytes=80, wire_bytes=60, busy_ns=40, exposed_ns=10)
        for n in range(4)
    ]
    result = found({0: rows, 1: rows[:2]})  # rank 1 was silent in half of the steps
    (gather,) = result.operations
    assert (gather.calls, gather.logical_bytes, gather.wire_bytes) == (1.5, 60, 45)
    assert (result.busy_ns, result.exposed_ns) == (30, 7.5)
    assert result.exposed_step_share == 0.0075
    assert result.overlap_share == 0.75
    assert gather.bytes_per_call == 40


@pytest.mark.parametrize(
    ("op", "n", "factor"),
    [
        (REDUCE, 4, 1.5),
        (REDUCE, 2, 1.0),
        (GATHER, 4, 0.75),
        (SCATTER, 4, 0.75),
        (CollectiveOp.ALL_TO_ALL, 8, 0.875),
        (CollectiveOp.BROADCAST, 8, 1.0),
        (REDUCE, 1, 0.0),
    ],
)
def test_bus_bandwidth_is_that_of_nccl_tests(op, n, factor):
    assert bus_factor(op.value, n) == factor


def test_bandwidth_is_of_the_operation_that_was_asked_for():
    # 1 MiB in 1 ms on four ranks; gloo makes an all-reduce of the reduce-scatter.
    rows = [
        comm(n, SCATTER, wire_op=REDUCE, logical_bytes=1 << 20, busy_ns=10**6) for n in range(4)
    ]
    (item,) = found({0: rows, 1: rows}).operations
    assert item.algbw_bytes_per_s * 8 / 1e9 == pytest.approx(8.389, abs=1e-3)
    assert item.busbw_bytes_per_s * 8 / 1e9 == pytest.approx(6.291, abs=1e-3)
    assert item.wire_op == "all_reduce"


def test_an_earlier_attempt_of_a_repeated_step_is_not_added():
    rows = sorted([*map(step, range(4)), *map(step, range(2, 4))], key=lambda row: row.step)
    traffic = sorted(
        [
            *(comm(n, logical_bytes=99) for n in range(4)),
            *(comm(n, logical_bytes=10) for n in (2, 3)),
        ],
        key=lambda row: row.step,
    )
    result = found({0: traffic}, table_of(STEPS, {0: rows}))
    assert result.logical_bytes == (99 + 99 + 10 + 10) / 4


def test_only_steps_that_count_are_looked_at():
    assert found({0: [comm(9, logical_bytes=1)]}) is None
    assert found({}) is None


def call(sequence, start_ns, end_ns, *, step=0, op=GATHER):
    return CommCallRow(
        step=step,
        sequence=sequence,
        phase=Phase.FORWARD,
        op=op,
        wire_op=op,
        start_ns=start_ns,
        end_ns=end_ns,
    )


def waited(rows_by_rank, ranks=3):
    counted = counted_steps(steps_of(ranks))
    return waiting(table_of(COMM_CALLS, rows_by_rank), counted)


def test_the_shortest_duration_is_the_transfer_and_the_rest_is_waiting():
    # Rank 1 comes 70 late to the first and rank 0 comes 5 late to the second; clocks differ.
    result = waited(
        {
            0: [call(0, 1000, 1100), call(1, 2005, 2030, op=REDUCE)],
            1: [call(0, 70, 100), call(1, 1000, 1030, op=REDUCE)],
            2: [call(0, 500_000, 500_100), call(1, 600_000, 600_030, op=REDUCE)],
        }
    )
    assert result.collectives == 2
    assert result.transfer_ns == 30 + 25
    assert result.transfer_by_op_ns == {"all_gather": 30, "all_reduce": 25}
    assert result.waited_ns == {0: 70, 1: 5, 2: 75}
    assert result.last_share == {0: 0.5, 1: 0.5, 2: 0.0}
    assert result.least_waiting_rank == 1
    assert result.waiting_share == pytest.approx(150 / (150 + 3 * 55))


def test_a_collective_that_a_rank_did_not_time_is_left_out():
    result = waited({0: [call(0, 0, 10), call(1, 0, 10)], 1: [call(0, 5, 10)], 2: [call(0, 5, 10)]})
    assert result.collectives == 1
    both = [call(0, 5, 10), call(1, 0, 10)]
    assert waited({0: both, 1: both, 2: both[:1]}).collectives == 1
    assert waited({0: [call(0, 0, 10)]}) is None
    assert waited({0: [call(0, 0, 10)], 1: [call(1, 0, 10)]}) is None


def beside(stage, *rows, params=1000, accumulation=1, **model):
    manifest = Manifest(
        world_size=4,
        config=RunConfig(stage=stage, precision=Precision.BF16, accumulation_steps=accumulation),
        model=ModelFacts(param_elements=params, **model),
    )
    steps = table_of(STEPS, {0: [step(n) for n in range(4)]})
    every = [msgspec.structs.replace(row, step=n) for n in range(4) for row in rows]
    result = communication(table_of(COMM, {0: every}), counted_steps(steps))
    return {line.exchange.value: line for line in traffic_beside_theory(result, manifest)}


def sent(op, elements, *, share=0.75, **other):
    size = 2 * elements
    return comm(
        0, op, logical_bytes=size, wire_bytes=int(size * share), calls=1, dtype="bf16", **other
    )


MILLION = 10**6


def test_traffic_is_held_against_the_stage():
    lines = beside(
        2,
        sent(SCATTER, 2 * MILLION),
        sent(GATHER, MILLION, phase=Phase.GATHER_WAIT),
        sent(GATHER, 16, phase=Phase.OPTIMIZER),  # norm and finite check
        params=MILLION,
        accumulation=2,
    )
    for name, size in (("reduction", 4 * MILLION), ("gather", 2 * MILLION)):
        assert lines[name].theory_logical_bytes == lines[name].logical_bytes == size
        assert lines[name].residual is TrafficResidual.NONE
        assert lines[name].wire_excess == 1


def test_an_operation_that_the_backend_replaced_sends_more():
    line = beside(1, sent(SCATTER, MILLION, share=1.5, wire_op=REDUCE), params=MILLION)["reduction"]
    assert line.replaced_by == ("all_reduce",)
    assert line.wire_excess == 2


def test_stage_0_may_ask_for_an_all_reduce_in_its_two_halves():
    whole = beside(0, sent(REDUCE, MILLION, share=1.5), params=MILLION)
    halves = beside(0, sent(SCATTER, MILLION), sent(GATHER, MILLION), params=MILLION)
    assert list(whole) == ["reduction"]
    assert list(halves) == ["reduction", "gather"]
    for line in (*whole.values(), *halves.values()):
        assert (line.residual, line.wire_excess) == (TrafficResidual.NONE, 1)


def test_residents_of_stage_3_are_gathered_once():
    passes = [sent(GATHER, 4 * MILLION, phase=phase) for phase in (Phase.FORWARD, Phase.BACKWARD)]
    update = sent(GATHER, 1000, phase=Phase.GATHER_WAIT)
    line = beside(3, *passes, update, params=2 * MILLION + 1000, accumulation=2)["gather"]
    assert (line.residual, line.resident_bytes) == (TrafficResidual.NONE, 2000)
    line = beside(3, *passes, update, params=2 * MILLION, accumulation=2)["gather"]
    assert line.residual is TrafficResidual.PADDING
    line = beside(3, *passes, update, params=MILLION, accumulation=2)["gather"]
    assert line.residual is TrafficResidual.UNEXPLAINED
    only = beside(3, sent(GATHER, MILLION, phase=Phase.GATHER_WAIT), params=MILLION)["gather"]
    assert (only.residual, only.wire_excess) == (TrafficResidual.NONE, 1)


def test_an_embedding_of_stage_3_is_gathered_in_forward_only():
    gathers = [
        sent(GATHER, MILLION, phase=Phase.FORWARD),
        sent(GATHER, MILLION - 50_000, phase=Phase.BACKWARD),
    ]
    line = beside(3, *gathers, params=MILLION)["gather"]
    assert line.residual is TrafficResidual.FORWARD_ONLY
    # The other way round it is no such thing.
    line = beside(3, gathers[0], params=MILLION // 2 + 25_001)["gather"]
    assert line.residual is TrafficResidual.UNEXPLAINED


def test_frozen_parameters_of_stage_3_are_gathered_too_unless_they_are_small():
    gathers = [sent(GATHER, 2 * MILLION, phase=phase) for phase in (Phase.FORWARD, Phase.BACKWARD)]
    line = beside(3, *gathers, params=2 * MILLION, trainable_elements=MILLION)["gather"]
    assert line.residual is TrafficResidual.NONE
    line = beside(3, *gathers, params=int(2.1 * MILLION), trainable_elements=MILLION)["gather"]
    assert line.residual is TrafficResidual.RESIDENT
    line = beside(3, *gathers, params=int(2.1 * MILLION))["gather"]
    assert line.residual is TrafficResidual.UNEXPLAINED


def test_words_that_ranks_share_are_no_payload():
    words = msgspec.structs.replace(sent(GATHER, MILLION, phase=Phase.OPTIMIZER), dtype="int64")
    lines = beside(1, sent(SCATTER, MILLION), sent(GATHER, MILLION), words, params=MILLION)
    assert lines["gather"].residual is TrafficResidual.NONE


def test_types_that_are_mixed_or_unknown_have_no_form():
    assert beside(2, sent(SCATTER, MILLION, share=1.0)) != {}
    strange = msgspec.structs.replace(sent(SCATTER, MILLION), dtype="fp8")
    assert beside(2, strange) == {}
