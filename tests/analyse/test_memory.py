import pytest

from probe.analyse.memory.theory import Residual, expected_bytes, memory_beside_theory
from probe.analyse.memory.use import memory_use
from probe.schema.documents import Manifest, ModelFacts, RunConfig
from probe.schema.rows import MemoryRow
from probe.schema.tables import MEMORY
from probe.schema.vocabulary import MemoryCategory, Precision, Tier
from tests.analyse.hand_built import table_of

MB = 10**6


def used(rows_by_rank, **other):
    return memory_use(table_of(MEMORY, rows_by_rank), **other)


def row(step, **other):
    return MemoryRow(step=step, **other)


def test_the_peak_is_the_fullest_rank_at_its_fullest_step():
    found = used(
        {
            0: [row(0, peak_allocated_bytes=90), row(1, peak_allocated_bytes=100)],
            1: [
                row(0, peak_allocated_bytes=120, peak_reserved_bytes=150, device_params_bytes=70),
                row(1, peak_allocated_bytes=110),
            ],
        },
        capacity_bytes=200,
    )
    assert (found.peak.rank, found.peak.step, found.peak.peak_bytes) == (1, 0, 120)
    assert found.peak.held_bytes == {(Tier.DEVICE, MemoryCategory.PARAMS): 70}
    assert (found.peak.unaccounted_bytes, found.peak.fragmented_bytes) == (50, 30)
    assert found.rank_peak_bytes == {0: 100, 1: 120}
    assert found.headroom_bytes == 50


def test_without_an_allocator_the_ledger_is_the_measure_and_only_the_device_counts():
    found = used({0: [row(3, device_params_bytes=10, device_grads_bytes=5, host_params_bytes=99)]})
    assert found.peak.peak_bytes == 15
    assert not found.peak.from_allocator
    assert found.peak.unaccounted_bytes == 0
    assert found.headroom_bytes is None


def test_without_an_allocator_the_process_is_held_against_the_capacity():
    rows = {0: [row(0, device_params_bytes=10, peak_rss_bytes=70)]}
    assert used(rows, capacity_bytes=100).headroom_bytes == 30


def test_profiled_steps_do_not_count():
    rows = {0: [row(0, device_params_bytes=10), row(1, device_params_bytes=99)]}
    assert used(rows, profiled_steps=[1]).peak.peak_bytes == 10
    assert used(rows, profiled_steps=[0, 1]) is None


def test_imbalance_names_the_rank_and_what_it_holds_more_of():
    rows = {
        rank: [row(0, device_params_bytes=100, device_activations_bytes=50)] for rank in range(3)
    }
    rows[3] = [row(0, device_params_bytes=110, device_activations_bytes=90)]
    found = used(rows).imbalance
    assert (found.fullest_rank, found.excess_bytes) == (3, 50)
    assert found.excess_share == pytest.approx(1 / 3)
    assert found.category is MemoryCategory.ACTIVATIONS
    assert used({0: [row(0)]}).imbalance is None


def manifest(stage=2, params=100 * MB, settings=None, **model):
    return Manifest(
        world_size=4,
        config=RunConfig(
            stage=stage,
            precision=Precision.FP16,
            micro_batch_samples=2,
            settings={"optimizer.type": "AdamW", **(settings or {})},
        ),
        model=ModelFacts(param_elements=params, **model),
    )


def beside(manifest, **columns):
    peak = used({0: [row(0, **columns)]}).peak
    return {(line.tier, line.category): line for line in memory_beside_theory(peak, manifest)}


def test_states_are_held_against_the_closed_form_and_padding_has_its_name():
    lines = beside(
        manifest(),
        device_params_bytes=200 * MB,
        device_grads_bytes=50 * MB + 512,
        device_master_params_bytes=150 * MB,
        device_optimizer_states_bytes=200 * MB,
        device_grad_buckets_bytes=30 * MB,
    )
    device = Tier.DEVICE
    assert lines[device, MemoryCategory.PARAMS].residual is Residual.NONE
    grads = lines[device, MemoryCategory.GRADS]
    assert (grads.residual_bytes, grads.residual) == (512, Residual.PADDING)
    master = lines[device, MemoryCategory.MASTER_PARAMS]
    assert (master.residual_bytes, master.residual) == (50 * MB, Residual.UNEXPLAINED)
    buckets = lines[device, MemoryCategory.GRAD_BUCKETS]
    assert (buckets.theory_bytes, buckets.residual) == (None, Residual.BUCKETS)


def test_what_should_be_there_and_is_not_stands_out():
    line = beside(manifest())[Tier.DEVICE, MemoryCategory.PARAMS]
    assert (line.measured_bytes, line.theory_bytes) == (0, 200 * MB)
    assert line.residual is Residual.UNEXPLAINED


def test_the_allocator_tells_of_temporaries_and_fragmentation():
    lines = memory_beside_theory(
        used({0: [row(0, peak_allocated_bytes=100, peak_reserved_bytes=130)]}).peak, Manifest()
    )
    assert [(line.residual, line.measured_bytes) for line in lines] == [
        (Residual.TEMPORARY, 100),
        (Residual.FRAGMENTATION, 30),
    ]
    lines = memory_beside_theory(
        used({0: [row(0, peak_allocated_bytes=100, device_params_bytes=120)]}).peak, Manifest()
    )
    assert lines[-1].residual is Residual.NOT_AT_ONCE


def test_activations_are_held_against_the_shape_where_there_is_one():
    known = manifest(layers=2, hidden=64, heads=4, sequence=32)
    line = beside(known, device_activations_bytes=10)[Tier.DEVICE, MemoryCategory.ACTIVATIONS]
    assert line.theory_bytes == 2 * (32 * 2 * 64 * 34 + 4 * 32 * 32 * 2 * 5)
    assert line.residual is Residual.UNSAVED


def test_what_a_setting_or_a_stage_explains_has_its_own_name():
    sums = manifest(settings={"precision.accumulate_in_fp32": True})
    line = beside(sums, device_grads_bytes=100 * MB)[Tier.DEVICE, MemoryCategory.GRADS]
    assert (line.residual_bytes, line.residual) == (50 * MB, Residual.FP32_SUMS)
    line = beside(manifest(stage=3), device_params_bytes=60 * MB)[
        Tier.DEVICE, MemoryCategory.PARAMS
    ]
    assert (line.residual_bytes, line.residual) == (10 * MB, Residual.RESIDENT)


@pytest.mark.parametrize(
    ("beyond_bytes", "residual"),
    [(0, Residual.NONE), (12, Residual.PADDING), (225_000, Residual.RESIDENT)],
)
def test_residents_of_a_small_model_are_not_called_padding(beyond_bytes, residual):
    lines = beside(manifest(stage=3), device_params_bytes=50 * MB + beyond_bytes)
    assert lines[Tier.DEVICE, MemoryCategory.PARAMS].residual is residual


def test_frozen_parameters_are_expected_as_weights():
    expected = expected_bytes(manifest(trainable_elements=20 * MB))
    assert expected[Tier.DEVICE, MemoryCategory.PARAMS] == 200 * MB
    assert expected[Tier.DEVICE, MemoryCategory.GRADS] == 10 * MB


@pytest.mark.parametrize(
    ("settings", "states"),
    [
        ({"optimizer.type": "SGD"}, 0),
        ({"optimizer.type": "SGD", "optimizer.params.momentum": 0.9}, 100 * MB),
        ({"optimizer.type": "Lion"}, 100 * MB),
        ({"optimizer.type": "a stranger"}, None),
    ],
)
def test_states_are_those_of_the_optimizer_or_not_known(settings, states):
    expected = expected_bytes(manifest(settings=settings))
    assert expected.get((Tier.DEVICE, MemoryCategory.OPTIMIZER_STATES)) == states


def test_a_run_that_tells_nothing_has_no_theory():
    line = beside(Manifest(), device_params_bytes=5)[Tier.DEVICE, MemoryCategory.PARAMS]
    assert line.theory_bytes is None
