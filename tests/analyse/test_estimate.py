import dataclasses

import pytest

from probe.analyse.theory.activations import Shape
from probe.analyse.theory.estimate import Plan, estimate
from probe.schema.vocabulary import MemoryCategory, Precision, Tier

SEVEN = Plan(param_elements=7 * 10**9, world=8)


def by_name(plan):
    return {(row.partition.stage, row.partition.offloaded): row for row in estimate(plan).rows}


def test_every_stage_and_offload_that_exists_is_there():
    rows = by_name(SEVEN)
    assert list(rows) == [(0, 0), (1, 0), (1, 1), (2, 0), (2, 1), (3, 0), (3, 1), (3, 2)]
    assert [rows[stage, 0].states_bytes / 1e9 for stage in range(4)] == [112, 38.5, 26.25, 14]


def test_memory_falls_with_the_stage_and_with_each_offload():
    sizes = [row.states_bytes for row in estimate(SEVEN).rows if row.partition.offloaded == 0]
    assert sizes == sorted(sizes, reverse=True)
    rows = by_name(SEVEN)
    assert rows[3, 0].states_bytes > rows[3, 1].states_bytes > rows[3, 2].states_bytes == 0
    for stage in (1, 2, 3):
        assert rows[stage, 1].offloaded_bytes == (12.25e9 if stage >= 2 else 10.5e9)


def test_what_is_offloaded_fits_first_only_if_nothing_else_does():
    plan = dataclasses.replace(SEVEN, device_memory_bytes=25 * 10**9)
    names = [(row.partition.stage, row.partition.offloaded) for row in estimate(plan).fitting]
    assert names == [(3, 0), (2, 1), (3, 1), (3, 2)]


def test_without_a_device_memory_nothing_is_said_of_fitting():
    assert all(row.fits is None for row in estimate(SEVEN).rows)
    assert estimate(SEVEN).fitting == ()


def test_working_memory_is_buckets_and_two_blocks():
    shape = Shape(layers=32, hidden=4096, heads=32, sequence=2048)
    rows = by_name(dataclasses.replace(SEVEN, shape=shape))
    assert rows[1, 0].working_bytes == 0
    assert rows[2, 0].working_bytes == 2 * 500_000_000 * 2
    assert rows[3, 0].working_bytes == 2 * 500_000_000 * 2 + 2 * 218_750_000 * 2
    assert rows[3, 0].activation_bytes == 28.5 * 2**30
    assert rows[3, 0].device_bytes == sum(
        (14 * 10**9, rows[3, 0].activation_bytes, rows[3, 0].working_bytes)
    )


def test_autocast_copies_the_weights_and_a_rank_alone_needs_no_buckets():
    amp = dataclasses.replace(SEVEN, precision=Precision.AMP_BF16, world=1)
    assert by_name(amp)[0, 0].working_bytes == 14e9
    assert by_name(amp)[3, 0].working_bytes == 14e9
    assert by_name(dataclasses.replace(SEVEN, world=1))[3, 0].working_bytes == 0


def test_offloading_to_disk_uses_the_disk():
    rows = by_name(dataclasses.replace(SEVEN, offload_to=Tier.DISK))
    assert rows[3, 2].offloaded_bytes == 12.25e9
    gradients = {(Tier.HOST, MemoryCategory.GRADS): 1.75e9}
    on_host = {at: size for at, size in rows[3, 2].states.held_bytes.items() if at[0] is Tier.HOST}
    assert on_host == gradients


@pytest.mark.parametrize(("stage", "volume"), [(0, 2), (1, 2), (2, 2), (3, 3)])
def test_traffic_of_a_step(stage, volume):
    sent = by_name(SEVEN)[stage, 0].wire_elements
    assert sent == pytest.approx(volume * 7e9 * 7 / 8, rel=1e-6)
