import pytest

from probe.analyse.theory.activations import Attention, Shape, activation_bytes, layer_bytes
from probe.analyse.theory.model_states import Partition, model_states
from probe.analyse.theory.traffic import library_wire_op, step_traffic, wire_factor
from probe.schema.vocabulary import CollectiveOp, MemoryCategory, Phase, Precision, Tier

BILLION = 10**9
SEVEN = Shape(layers=32, hidden=4096, heads=32, sequence=2048)


def states(stage, *, precision=Precision.BF16, world=8, params=7 * BILLION, **offload):
    return model_states(params, Partition(stage=stage, precision=precision, world=world, **offload))


@pytest.mark.parametrize("precision", list(Precision))
@pytest.mark.parametrize(("stage", "total"), [(0, 112e9), (3, 14e9)])
def test_adam_takes_sixteen_bytes_a_parameter_in_every_precision(precision, stage, total):
    assert states(stage, precision=precision).on(Tier.DEVICE) == total


@pytest.mark.parametrize(
    ("stage", "params", "grads", "updated", "total"),
    [
        (0, 14e9, 14e9, 84e9, 112e9),
        (1, 14e9, 14e9, 10.5e9, 38.5e9),
        (2, 14e9, 1.75e9, 10.5e9, 26.25e9),
        (3, 1.75e9, 1.75e9, 10.5e9, 14e9),
    ],
)
def test_the_table_of_stages(stage, params, grads, updated, total):
    held = states(stage)
    assert held.of(Tier.DEVICE, MemoryCategory.PARAMS) == params
    assert held.of(Tier.DEVICE, MemoryCategory.GRADS) == grads
    master = held.of(Tier.DEVICE, MemoryCategory.MASTER_PARAMS)
    assert master + held.of(Tier.DEVICE, MemoryCategory.OPTIMIZER_STATES) == updated
    assert held.on(Tier.DEVICE) == total


def test_the_optimizer_takes_its_slice_of_the_gradients_to_the_host():
    held = states(2, offload_optimizer=Tier.HOST)
    assert held.on(Tier.DEVICE) == 14e9
    assert held.of(Tier.HOST, MemoryCategory.GRADS) == 1.75e9
    assert held.on(Tier.HOST) == 1.75e9 + 10.5e9


def test_stage_1_keeps_whole_gradients_whatever_is_offloaded():
    held = states(1, offload_optimizer=Tier.DISK)
    assert held.of(Tier.DEVICE, MemoryCategory.GRADS) == 14e9
    assert held.of(Tier.DISK, MemoryCategory.GRADS) == 0


def test_gradients_wait_on_the_host_for_states_on_disk():
    held = states(2, offload_optimizer=Tier.DISK)
    assert held.of(Tier.HOST, MemoryCategory.GRADS) == 1.75e9
    assert held.on(Tier.DISK) == 10.5e9


def test_with_everything_offloaded_no_state_rests_on_the_device():
    held = states(3, offload_optimizer=Tier.HOST, offload_params=Tier.DISK)
    assert held.on(Tier.DEVICE) == 0
    assert held.of(Tier.DISK, MemoryCategory.PARAMS) == 1.75e9


def test_slices_are_rounded_up_and_a_world_of_one_has_the_whole():
    assert states(3, params=10, world=4).of(Tier.DEVICE, MemoryCategory.PARAMS) == 3 * 2
    assert {states(stage, world=1, params=10).on(Tier.DEVICE) for stage in range(4)} == {160}


def test_frozen_parameters_have_weights_only():
    partition = Partition(stage=3, precision=Precision.FP16, world=2)
    held = model_states(10, partition, frozen_elements=100)
    assert held.of(Tier.DEVICE, MemoryCategory.PARAMS) == (5 + 50) * 2
    assert held.of(Tier.DEVICE, MemoryCategory.GRADS) == 10


@pytest.mark.parametrize(
    "wrong",
    [
        {"stage": 4},
        {"stage": 1, "world": 0},
        {"stage": 0, "offload_optimizer": Tier.HOST},
        {"stage": 2, "offload_params": Tier.HOST},
    ],
)
def test_what_cannot_be_is_refused(wrong):
    with pytest.raises(ValueError, match=r"stage|world"):
        Partition(**{"precision": Precision.BF16, "world": 2, **wrong})


def test_activations_of_a_seven_billion_model_are_28_and_a_half_gib():
    total = activation_bytes(SEVEN)
    assert layer_bytes(SEVEN) == 2048 * 4096 * (34 + 5 * 32 * 2048 // 4096)
    assert total / 2**30 == 28.5
    assert total / 1e9 == pytest.approx(30.6, abs=0.01)
    # 42.5 adds gigabytes to gibibytes; in one unit the sum is another.
    assert 14 + total / 2**30 == 42.5
    assert (14e9 + total) / 1e9 == pytest.approx(44.6, abs=0.01)


def with_checkpoints(every, layers=4):
    return Shape(layers=layers, hidden=8, heads=2, sequence=16, checkpoint_every=every)


def test_checkpointed_layers_keep_their_input_and_one_is_whole_at_a_time():
    shape = with_checkpoints(1)
    entry, whole = 2 * 16 * 8, layer_bytes(shape)
    assert activation_bytes(shape) == 4 * entry + whole


def test_a_later_layer_is_gone_before_an_earlier_one_is_recomputed():
    # Layers 2 and 4 of 5 forget; when 4 is recomputed, 5 has been used up.
    shape = with_checkpoints(2, layers=5)
    entry, whole = 2 * 16 * 8, layer_bytes(shape)
    assert activation_bytes(shape) == 3 * whole + 2 * entry


def test_fp32_fused_attention_and_logits():
    shape = Shape(layers=1, hidden=8, heads=2, sequence=16, vocabulary=100)
    assert activation_bytes(shape, element_bytes=4) == (
        16 * 8 * 66 + 2 * 16 * 16 * 9 + 4 * 16 * 100
    )
    fused = Shape(layers=1, hidden=8, heads=2, sequence=16, attention=Attention.FUSED)
    assert activation_bytes(fused) == 16 * 8 * 34 + 4 * 2 * 16


@pytest.mark.parametrize(("stage", "volume"), [(0, 2.0), (1, 2.0), (2, 2.0), (3, 3.0)])
@pytest.mark.parametrize("world", [2, 4])
def test_wire_elements_of_a_step(stage, volume, world):
    sent = sum(item.wire_elements for item in step_traffic(1000, stage=stage, world=world))
    small = 2 * wire_factor(CollectiveOp.ALL_REDUCE, world)
    assert sent == pytest.approx(volume * 1000 * (world - 1) / world + small)


@pytest.mark.parametrize(
    ("stage", "logical"), [(0, 1000), (1, 2000), (2, 4 * 1000 + 1000), (3, 4 * 3000)]
)
def test_accumulation_costs_stages_2_and_3_a_reduction_for_each_micro_batch(stage, logical):
    traffic = step_traffic(1000, stage=stage, world=2, micro_batches=4)
    assert sum(item.logical_elements for item in traffic) == logical + 2


def test_resident_parameters_are_gathered_once_after_the_update():
    traffic = step_traffic(1000, stage=3, world=2, micro_batches=2, resident_elements=100)
    gathered = {item.phase: item.logical_elements for item in traffic if item.op == "all_gather"}
    assert gathered == {Phase.FORWARD: 1800, Phase.BACKWARD: 1800, Phase.OPTIMIZER: 100}


def test_a_rank_alone_talks_to_nobody():
    assert step_traffic(1000, stage=3, world=1) == ()


@pytest.mark.parametrize(
    ("op", "at_2", "at_4"),
    [
        (CollectiveOp.ALL_REDUCE, 2.00, 5.98),
        (CollectiveOp.REDUCE_SCATTER, 2.00, 6.01),
        (CollectiveOp.ALL_GATHER, 1.00, 3.00),
        (CollectiveOp.ALL_TO_ALL, 1.00, 3.07),
        (CollectiveOp.BROADCAST, 1.00, 3.00),
    ],
)
def test_what_gloo_was_measured_to_send(op, at_2, at_4):
    """Sums over ranks of bytes counted at the sockets, over S."""
    wire_op = library_wire_op(op, "gloo")
    assert 2 * wire_factor(wire_op, 2) == pytest.approx(at_2, rel=0.03)
    assert 4 * wire_factor(wire_op, 4) == pytest.approx(at_4, rel=0.03)
