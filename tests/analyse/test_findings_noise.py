"""What is little, or rests on one step, is no finding, though it is a large share of something."""

import random

import msgspec
import pytest

from probe.analyse.findings.catalogue import find_all
from probe.schema.vocabulary import CollectiveOp, Phase
from tests.analyse.made_run import (
    HEALTHY,
    MB,
    MS,
    OFFLOADED,
    ON_HOST,
    STAGE_3,
    everywhere,
    facts_of,
    found,
    in_steps,
    moved,
    on_rank,
)

US = 10**3
TINY_STEP = {
    "wall_ns": 400 * US,
    "data_ns": 10 * US,
    "forward_ns": 120 * US,
    "backward_ns": 180 * US,
    "reduce_wait_ns": 20 * US,
    "optimizer_ns": 60 * US,
}
"""Of a model that computes for a third of a millisecond."""
QUIET = everywhere(busy_ns=40 * US, exposed_ns=10 * US)


def tiny(**different):
    """The steps of a tiny model, with differences by rank: rank, then fields."""

    def steps(step, rank):
        return {**TINY_STEP, **different.get(f"rank_{rank}", {}), **different.get("everywhere", {})}

    return steps


@pytest.mark.parametrize(
    ("steps", "comm"),
    [
        (tiny(rank_2={"forward_ns": 200 * US, "reduce_wait_ns": 0}), QUIET),
        (tiny(), on_rank(3, busy_ns=80 * US, exposed_ns=10 * US)),
        (tiny(everywhere={"data_ns": 80 * US}), QUIET),
        (tiny(everywhere={"recompute_ns": 60 * US}), QUIET),
        (tiny(), everywhere(busy_ns=40 * US, exposed_ns=35 * US)),
        (tiny(), everywhere(busy_ns=40 * US, exposed_ns=20 * US, calls=2000)),
    ],
    ids=["straggler", "slow link", "data", "recomputation", "exposed", "many collectives"],
)
def test_microseconds_of_a_tiny_model_are_no_finding(steps, comm):
    busy = comm if comm is QUIET else lambda step, rank: {**QUIET(step, rank), **comm(step, rank)}
    assert found(steps=steps, comm=busy) == {}


def test_the_same_shares_of_a_step_of_forty_milliseconds_are():
    def large(name, value):
        fields = {field: 100 * ns for field, ns in {**TINY_STEP, name: value}.items()}
        return {"steps": everywhere(**fields), "comm": everywhere(busy_ns=4 * MS, exposed_ns=MS)}

    assert list(found(**large("data_ns", 80 * US))) == ["data-bound"]
    assert list(found(**large("recompute_ns", 60 * US))) == ["recomputation-cost"]


def test_gathers_and_offload_of_microseconds_are_no_finding():
    gathers = {"op": CollectiveOp.ALL_GATHER, "phase": Phase.FORWARD}
    comm = everywhere(**gathers, busy_ns=40 * US, exposed_ns=40 * US)
    sliced = everywhere(device_params_bytes=50 * MB)
    assert found(STAGE_3, steps=tiny(), comm=comm, memory=sliced) == {}
    assert found(OFFLOADED, steps=tiny(), comm=QUIET, memory=ON_HOST, more=moved(60 * US)) == {}


def test_spikes_of_microseconds_are_no_finding():
    spikes = in_steps(*range(7, 60, 8), wall_ns=390 * US, data_ns=100 * US)

    def steps(step, rank):
        return {**TINY_STEP, "wall_ns": 300 * US, "forward_ns": 20 * US, **spikes(step, rank)}

    assert found(steps=steps, comm=QUIET) == {}


SECOND = 1000 * MS


@pytest.mark.parametrize(
    "differences",
    [
        {"steps": in_steps(30, wall_ns=2 * SECOND, data_ns=2 * SECOND - 99 * MS)},
        {"comm": in_steps(30, exposed_ns=2 * SECOND)},
        {"steps": in_steps(30, recompute_ns=SECOND)},
        {"steps": in_steps(28, 29, 30, wall_ns=SECOND, data_ns=901 * MS)},
    ],
    ids=["data", "exposed", "recomputation", "three late batches"],
)
def test_one_step_that_waited_long_is_not_what_steps_do(differences):
    assert found(**differences) == {}


def test_offload_that_waited_once_is_not_bound_by_it():
    always = moved(1 * MS)

    def once(step, rank):
        return moved(2 * SECOND)(step, rank) if step == 30 else always(step, rank)

    assert found(OFFLOADED, memory=ON_HOST, more=once) == {}


def test_waiting_now_and_then_is_what_steps_do():
    late = random.Random(3).sample(range(5, 60), 20)
    steps = in_steps(*late, wall_ns=150 * MS, data_ns=51 * MS)
    assert "data-bound" in found(steps=steps)


def test_four_steps_say_nothing_about_time():
    waiting = {"comm": everywhere(exposed_ns=9 * MS), "steps": everywhere(data_ns=40 * MS)}
    assert found(count=4, **waiting) == {}
    assert set(found(count=5, **waiting)) == {"exposed-communication", "data-bound"}


def test_sentences_that_differ_make_no_rank_the_loaded_one():
    chance = random.Random(5)

    def steps(step, rank):
        return {"tokens": chance.randrange(100, 3000)}

    facts = facts_of(count=20, steps=steps)
    assert facts.balance.load_excess > 0.10
    assert find_all(facts) == ()


def test_little_memory_is_no_finding():
    """A model of 5 MB: its workspaces, segments and indices are larger than it is."""
    model = msgspec.structs.replace(
        HEALTHY.model, param_elements=250_000, trainable_elements=250_000
    )
    small = msgspec.structs.replace(HEALTHY, model=model)
    states = {
        "device_params_bytes": 500_000,
        "device_grads_bytes": 125_000,
        "device_grad_buckets_bytes": 125_000,
        "device_master_params_bytes": 50_000,  # 250,000 by the form
        "device_optimizer_states_bytes": 500_000,
        "device_activations_bytes": 2 * MB,
    }

    def memory(step, rank):
        peak = (14 if rank == 1 else 5) * MB
        return {**states, "peak_allocated_bytes": peak, "peak_reserved_bytes": peak + 40 * MB}

    no_gain = everywhere(optimizer_ns=0, reduce_wait_ns=0, backward_ns=67 * MS)
    facts = facts_of(small, memory=memory, steps=no_gain, comm=everywhere(exposed_ns=0))
    assert facts.memory.imbalance.excess_share > 1
    assert find_all(facts) == ()


def test_retries_are_told_as_such():
    finding = found(memory=everywhere(allocator_retries=2))["fragmentation"]
    assert finding.title == "The allocator had to flush its cache 2 times to go on."


def test_gradients_of_one_strange_sample_do_not_advise_bf16():
    def first_sample(step, rank):
        return {"underflow_elements": 900} if step == 0 else {}

    assert found(numerics=first_sample) == {}
    few = everywhere(tensor_elements=50, underflow_elements=5)
    assert found(numerics=few) == {}


def test_spikes_that_chance_puts_at_equal_distances_have_no_period():
    at = (7, 9, 11, 25, 39)  # distances 2, 2, 14, 14: multiples of 2, as half of all numbers are
    assert found(steps=in_steps(*at, wall_ns=300 * MS, checkpoint_ns=200 * MS)) == {}
