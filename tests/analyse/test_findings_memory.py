"""Rules on memory and time: each fires on a run with its cause, and on no other."""

import msgspec
import pytest

from probe.schema.documents import ModelFacts
from tests.analyse.made_run import (
    HEALTHY,
    MB,
    MS,
    OFFLOADED,
    ON_HOST,
    PARAMS,
    STAGE_3,
    everywhere,
    found,
    in_steps,
    moved,
    named,
    only,
    settings_of,
)

IDLE = {"peak_allocated_bytes": 2_700 * MB, "peak_reserved_bytes": 3_000 * MB}


def test_data_bound():
    finding = only("data-bound", steps=everywhere(data_ns=21 * MS, wall_ns=120 * MS))
    assert finding.gain.share == pytest.approx(21 / 120)
    assert "num_workers" in finding.changes[0].setting


def test_recomputation_cost():
    again = everywhere(recompute_ns=20 * MS)
    finding = only("recomputation-cost", steps=again)
    assert finding.gain.share == pytest.approx(0.2)
    assert settings_of(finding)[0] == "activation_checkpointing.every_block: 2"
    short = everywhere(peak_reserved_bytes=9_500 * MB)
    assert found(steps=again, memory=short) == {}  # there it is needed
    assert found(steps=everywhere(recompute_ns=5 * MS)) == {}


def test_memory_headroom_for_a_larger_batch():
    idle = everywhere(**IDLE, device_activations_bytes=2_000 * MB)
    finding = only("memory-headroom", memory=idle)
    assert settings_of(finding) == ["train_micro_batch_size_per_gpu: 32"]
    assert finding.gain.share == pytest.approx(0.17 * 0.75)
    nothing_to_win = everywhere(optimizer_ns=0, backward_ns=65 * MS)
    assert found(memory=idle, steps=nothing_to_win) == {}


def test_memory_headroom_for_a_lower_stage():
    finding = only(
        "memory-headroom",
        STAGE_3,
        memory=everywhere(**IDLE, device_params_bytes=50 * MB, device_activations_bytes=0),
        comm=everywhere(exposed_ns=5 * MS),
    )
    assert settings_of(finding) == ["--stage 0"]
    assert finding.gain.share == pytest.approx(0.10 / 3)


def test_memory_headroom_without_offload():
    def memory(step, rank):
        return {**ON_HOST(step, rank), **IDLE, "device_activations_bytes": 0}

    finding = only("memory-headroom", OFFLOADED, memory=memory, more=moved(8 * MS))
    assert settings_of(finding) == ["--offload none"]
    assert finding.gain.share == pytest.approx(0.08)


def test_memory_far_from_theory():
    finding = only("memory-far-from-theory", memory=everywhere(device_master_params_bytes=400 * MB))
    assert named(finding) == {"master_params on device": "400 MB, expected 100 MB"}
    assert finding.gain.share == pytest.approx(300 / 8200)


def test_memory_near_to_theory():
    """5 % beyond the form is a tenth of a gigabyte, and 70 % is half a percent of the peak."""
    model = ModelFacts(param_elements=10 * PARAMS, trainable_elements=10 * PARAMS)
    states = everywhere(
        device_params_bytes=2_100 * MB,
        device_grads_bytes=500 * MB,
        device_master_params_bytes=1_000 * MB,
        device_optimizer_states_bytes=2_000 * MB,
    )
    assert found(msgspec.structs.replace(HEALTHY, model=model), memory=states) == {}
    assert found(memory=everywhere(device_grads_bytes=85 * MB)) == {}


def test_fragmentation():
    finding = only("fragmentation", memory=everywhere(peak_allocated_bytes=6_000 * MB))
    assert finding.gain.share == pytest.approx(2500 / 8500)
    retried = only("fragmentation", memory=everywhere(allocator_retries=2))
    assert named(retried)["retried allocations"] == "2"


def test_periodic_spikes():
    ends = range(14, 60, 15)
    saving = in_steps(*ends, wall_ns=300 * MS, checkpoint_ns=200 * MS)
    finding = only("periodic-spikes", steps=saving)
    assert finding.title == "Every 15 steps one takes far longer, in checkpoint."
    assert finding.gain.share == pytest.approx(800 / 6800)
    assert (finding.link.first_step, finding.link.last_step) == (14, 59)
    assert found(steps=in_steps(*ends, wall_ns=130 * MS)) == {}


def test_profiler_in_claim():
    finding = only("profiler-in-claim", steps=in_steps(*range(5, 50), profiled=True))
    assert named(finding) == {"recorded": "60", "profiled": "45", "counted": "15"}
    assert found(steps=in_steps(5, 6, 7, profiled=True)) == {}
    assert found(steps=everywhere(profiled=True)) == {}  # nothing is claimed at all
