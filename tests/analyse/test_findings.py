"""Each rule fires on a run that was made to have its cause, and on no healthy run."""

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from probe.analyse.findings import catalogue
from probe.analyse.findings.catalogue import RULES, find_all
from probe.analyse.findings.finding import GainKind, View
from probe.analyse.run_facts import run_facts
from probe.schema.documents import Manifest
from probe.schema.rows import CommCallRow, OffloadRow, OverflowRow
from probe.schema.tables import TABLES
from probe.schema.vocabulary import (
    CollectiveOp,
    Direction,
    MemoryCategory,
    NonFinite,
    Phase,
    Precision,
    SkipReason,
    TensorRole,
    Tier,
)
from tests.analyse.hand_built import table_of
from tests.analyse.made_run import MB, MS, configured, facts_of, found


def overflow(**fields):
    return {"skipped": True, "skip_reason": SkipReason.OVERFLOW, **fields}


def only(finding_id, *arguments, **differences):
    """The finding, which must be the only one."""
    result = found(*arguments, **differences)
    assert list(result) == [finding_id]
    return result[finding_id]


def named(finding):
    return {item.name: item.value for item in finding.evidence}


def settings_of(finding):
    return [change.setting for change in finding.changes]


def test_a_healthy_run_has_no_finding():
    assert found() == {}
    for precision in Precision:
        assert found(configured(precision=precision, stage=0)).keys() <= {"memory-far-from-theory"}
    assert found(ranks=1) == {}


def test_an_empty_run_has_no_finding():
    tables = {table: table_of(table, {}) for table in TABLES}
    assert find_all(run_facts(Manifest(), tables)) == ()


def scale_falls(step, rank):
    """2^16 to 1 in steps 0 to 16, where it overflows on."""
    scale = max(1.0, 65536.0 / 2**step)
    return overflow(loss_scale=scale, loss_scale_next=max(1.0, scale / 2))


def test_scale_at_minimum():
    finding = only("scale-at-minimum", steps=scale_falls)
    assert named(finding)["minimum scale"] == "1"
    assert finding.gain.share == 1.0
    assert settings_of(finding)[0] == "--bf16"
    assert (finding.link.view, finding.link.first_step) == (View.PRECISION, 0)


def test_the_floor_is_the_one_that_was_set():
    floor = configured(settings={"precision.loss_scale.minimum_scale": 4096.0})
    at_floor = {"loss_scale": 4096.0, "loss_scale_next": 4096.0}
    bad = lambda step, rank: {**at_floor, **(overflow() if step == 40 else {})}  # noqa: E731
    assert "scale-at-minimum" in found(floor, steps=bad)
    assert "scale-at-minimum" not in found(steps=bad)
    assert "scale-at-minimum" not in found(floor, steps=lambda step, rank: at_floor)


def test_scale_thrashing():
    def thrash(step, rank):
        return overflow() if step in (30, 36, 42, 48) else {}

    finding = only("scale-thrashing", steps=thrash)
    assert finding.title == "6.7 % of the steps after start-up overflow, in 4 streaks."
    assert settings_of(finding) == ["--bf16", "fp16.loss_scale_window: 4000"]
    assert finding.gain.share == pytest.approx(4 / 60)
    assert (finding.link.first_step, finding.link.last_step) == (30, 48)
    livelock = configured(settings={"precision.loss_scale.consecutive_hysteresis": True})
    assert settings_of(only("scale-thrashing", livelock, steps=thrash))[0] == (
        "fp16.consecutive_hysteresis: false"
    )
    assert found(steps=lambda step, rank: overflow() if step in (30, 48) else {}) == {}


def test_initial_scale_too_high():
    def start(step, rank):
        scales = [65536.0, 65536.0, 32768.0, 16384.0, 8192.0]
        return overflow(loss_scale=scales[step]) if step < 5 else {"loss_scale": 4096.0}

    finding = only("initial-scale-too-high", steps=start)
    assert settings_of(finding) == ["fp16.initial_scale_power: 12"]
    assert named(finding)["settled at"] == "4,096"
    assert finding.gain.share == pytest.approx(5 / 60)
    assert found(steps=lambda step, rank: {"loss_scale": 4096.0}) == {}
    feeling = lambda step, rank: start(step + 3, rank)  # noqa: E731
    assert found(steps=feeling) == {}  # two overflows are what it costs to feel for the limit


def test_the_recommended_scale_leaves_the_headroom_that_was_sampled():
    def start(step, rank):
        return overflow(loss_scale=65536.0) if step < 3 else {"loss_scale": 4096.0}

    tight = {"largest_magnitude": 65504.0 * 0.9, "loss_scale": 1024.0}
    finding = only("initial-scale-too-high", steps=start, numerics=lambda step, rank: tight)
    assert settings_of(finding) == ["fp16.initial_scale_power: 10"]


def offender(step, name):
    return OverflowRow(
        step=step,
        role=TensorRole.GRADIENT,
        kind=NonFinite.INF,
        parameter=name,
        first=True,
    )


def test_overflow_in_one_tensor():
    def bad(step, rank):
        return [offender(step, "head.weight")] if step in (30, 40, 50) and rank == 1 else []

    finding = only("overflow-in-one-tensor", more=bad)
    assert named(finding)["tensor"] == "head.weight (gradient)"
    assert named(finding)["ranks"] == "1"
    assert (finding.link.first_step, finding.link.last_step) == (30, 50)
    scattered = lambda step, rank: [offender(step, f"layer.{step}")] if step % 9 == 0 else []  # noqa: E731
    assert found(more=scattered) == {}


def test_bf16_advisable():
    finding = only("bf16-advisable", numerics=lambda step, rank: {"underflow_elements": 30})
    assert finding.title == "3.0 % of the gradient elements vanish in fp16."
    assert settings_of(finding) == ["--bf16"]
    assert finding.gain.kind is GainKind.TRUST
    bf16 = configured(precision=Precision.BF16)
    assert found(bf16, numerics=lambda step, rank: {"underflow_elements": 30}) == {}


def test_silent_skips():
    bf16 = configured(precision=Precision.BF16)
    bad = lambda step, rank: overflow() if step == 33 and rank == 2 else {}  # noqa: E731
    finding = only("silent-skips", bf16, steps=bad)
    assert named(finding)["skipped"] == "1 of 60"
    assert finding.link.first_step == 33
    assert found(steps=bad) == {}  # in fp16 one overflow is nothing


def test_clip_rate():
    finding = only("clip-rate", steps=lambda step, rank: {"clip_coefficient": 0.25})
    assert named(finding)["clipped"] == "60 of 60 steps"
    assert settings_of(finding) == ["--lr", "--clip 4"]
    seldom = lambda step, rank: {"clip_coefficient": 0.25 if step % 3 == 0 else 1.0}  # noqa: E731
    assert found(steps=seldom) == {}
    assert found(count=15, steps=lambda step, rank: {"clip_coefficient": 0.25}) == {}


def test_exposed_communication():
    finding = only("exposed-communication", comm=lambda step, rank: {"exposed_ns": 9 * MS})
    assert finding.gain.share == pytest.approx(0.18)
    assert settings_of(finding)[0] == "--accumulate 2 --stage 1"
    assert named(finding)["hidden under compute"] == "10.0 %"
    apart = configured(settings={"zero.overlap_communication": False})
    finding = only("exposed-communication", apart, comm=lambda step, rank: {"exposed_ns": 9 * MS})
    assert settings_of(finding)[0] == "zero_optimization.overlap_comm: true"


def test_tiny_collectives():
    finding = only("tiny-collectives", comm=lambda step, rank: {"calls": 2000})
    assert named(finding)["bytes a call"] == "100 kB"
    assert settings_of(finding) == ["zero_optimization.stage3_param_persistence_threshold: larger"]
    assert found(comm=lambda step, rank: {"calls": 2000, "exposed_ns": 0}) == {}


STAGE_3 = configured(stage=3)
SLICED = {"device_params_bytes": 50 * MB}


def gathers(exposed_ns):
    def change(step, rank):
        return {"op": CollectiveOp.ALL_GATHER, "phase": Phase.FORWARD, "exposed_ns": exposed_ns}

    return change


def test_prefetch_not_effective():
    finding = only(
        "prefetch-not-effective",
        STAGE_3,
        comm=gathers(8 * MS),
        memory=lambda step, rank: SLICED,
    )
    assert settings_of(finding)[0] == ("zero_optimization.stage3_prefetch_bucket_size: 100000000")
    assert finding.gain.share == pytest.approx(0.16)
    hidden = gathers(4 * MS)  # 8 % of the step, and most of it hidden
    assert found(STAGE_3, comm=hidden, memory=lambda step, rank: SLICED) == {}
    brief = lambda step, rank: {**gathers(1 * MS)(step, rank), "busy_ns": 1 * MS}  # noqa: E731
    assert found(STAGE_3, comm=brief, memory=lambda step, rank: SLICED) == {}


def test_straggler_that_computes_longer():
    def steps(step, rank):
        return {"forward_ns": 45 * MS, "reduce_wait_ns": 0} if rank == 2 else {}

    def calls(step, rank):
        begin = 15 if rank == 2 else 0
        return [
            CommCallRow(
                step=step,
                sequence=step,
                phase=Phase.BACKWARD,
                op=CollectiveOp.REDUCE_SCATTER,
                wire_op=CollectiveOp.REDUCE_SCATTER,
                start_ns=begin * MS,
                end_ns=20 * MS,
            )
        ]

    finding = only("straggler", steps=steps, more=calls)
    assert finding.title == "Rank 2 holds the others up (slow compute)."
    assert named(finding)["waits least for others"] == "rank 2, in 60 collectives"
    assert finding.gain.share == pytest.approx(0.15)


def test_straggler_with_a_slow_link():
    slow = lambda step, rank: {"busy_ns": 16 * MS} if rank == 3 else {}  # noqa: E731
    finding = only("straggler", comm=slow)
    assert finding.title == "Rank 3 holds the others up (slow link)."
    assert "GLOO_SOCKET_IFNAME" in finding.changes[0].setting


def test_unbalanced_work():
    heavy = lambda step, rank: {"tokens": 2048 if rank == 1 else 1024}  # noqa: E731
    finding = only("unbalanced-ranks", steps=heavy)
    assert named(finding)["rank 1"] == "2,048 tokens a step"
    assert finding.gain.share == pytest.approx(0.8 * 0.6 / 1.6)


def test_unbalanced_memory():
    full = lambda step, rank: {  # noqa: E731
        "peak_allocated_bytes": 9_300 * MB if rank == 1 else 8_200 * MB,
        "peak_reserved_bytes": 9_400 * MB,
    }
    finding = only("unbalanced-ranks", memory=full)
    assert finding.gain.kind is GainKind.MEMORY
    assert named(finding)["its peak"] == "9.30 GB"


def test_data_bound():
    slow = lambda step, rank: {"data_ns": 21 * MS, "wall_ns": 120 * MS}  # noqa: E731
    finding = only("data-bound", steps=slow)
    assert finding.gain.share == pytest.approx(21 / 120)
    assert "num_workers" in finding.changes[0].setting


OFFLOADED = configured(offload_optimizer=Tier.HOST)
ON_HOST = {
    "device_grads_bytes": 0,
    "device_master_params_bytes": 0,
    "device_optimizer_states_bytes": 0,
    "host_grads_bytes": 50 * MB,
    "host_master_params_bytes": 100 * MB,
    "host_optimizer_states_bytes": 200 * MB,
}


def moved(exposed_ns, tier=Tier.HOST):
    def rows(step, rank):
        return [
            OffloadRow(
                step=step,
                tier=tier,
                direction=Direction.FETCH,
                category=MemoryCategory.OPTIMIZER_STATES,
                moved_bytes=200 * MB,
                busy_ns=20 * MS,
                exposed_ns=exposed_ns,
            )
        ]

    return rows


def test_offload_bound():
    finding = only(
        "offload-bound", OFFLOADED, memory=lambda step, rank: ON_HOST, more=moved(15 * MS)
    )
    assert finding.gain.share == pytest.approx(0.15)
    assert settings_of(finding)[0] == "zero_optimization.offload_optimizer.pin_memory: true"
    assert found(OFFLOADED, memory=lambda step, rank: ON_HOST, more=moved(1 * MS)) == {}


def test_recomputation_cost():
    again = lambda step, rank: {"recompute_ns": 20 * MS}  # noqa: E731
    finding = only("recomputation-cost", steps=again)
    assert finding.gain.share == pytest.approx(0.2)
    assert settings_of(finding)[0] == "activation_checkpointing.every_block: 2"
    short = lambda step, rank: {"peak_reserved_bytes": 9_500 * MB}  # noqa: E731
    assert found(steps=again, memory=short) == {}  # there it is needed
    assert found(steps=lambda step, rank: {"recompute_ns": 5 * MS}) == {}


def test_memory_headroom_for_a_larger_batch():
    idle = {
        "device_activations_bytes": 2_000 * MB,
        "peak_allocated_bytes": 2_700 * MB,
        "peak_reserved_bytes": 3_000 * MB,
    }
    finding = only("memory-headroom", memory=lambda step, rank: idle)
    assert settings_of(finding) == ["train_micro_batch_size_per_gpu: 32"]
    assert finding.gain.share == pytest.approx(0.17 * 0.75)
    pure = lambda step, rank: {  # noqa: E731
        "optimizer_ns": 0,
        "reduce_wait_ns": 2 * MS,
        "backward_ns": 65 * MS,
    }
    assert found(memory=lambda step, rank: idle, steps=pure) == {}  # no time to be won


def test_memory_headroom_for_a_lower_stage_and_without_offload():
    idle = {"peak_allocated_bytes": 2_700 * MB, "peak_reserved_bytes": 3_000 * MB}
    whole = {**idle, **SLICED, "device_activations_bytes": 0}
    finding = only(
        "memory-headroom",
        STAGE_3,
        memory=lambda step, rank: whole,
        comm=lambda step, rank: {"exposed_ns": 5 * MS},
    )
    assert settings_of(finding) == ["--stage 0"]
    assert finding.gain.share == pytest.approx(0.10 / 3)
    moving = {**idle, **ON_HOST, "device_activations_bytes": 0}
    finding = only(
        "memory-headroom", OFFLOADED, memory=lambda step, rank: moving, more=moved(8 * MS)
    )
    assert settings_of(finding) == ["--offload none"]
    assert finding.gain.share == pytest.approx(0.08)


def test_memory_far_from_theory():
    whole = lambda step, rank: {"device_master_params_bytes": 400 * MB}  # noqa: E731
    finding = only("memory-far-from-theory", memory=whole)
    assert named(finding) == {"master_params on device": "400 MB, expected 100 MB"}
    assert finding.gain.share == pytest.approx(300 / 8200)
    a_little = configured(settings={"optimizer.type": "SGD"})
    nearly = lambda step, rank: {  # noqa: E731
        "device_params_bytes": 210 * MB,
        "device_optimizer_states_bytes": 0,
    }
    assert found(a_little, memory=nearly) == {}
    small = configured(settings={"optimizer.type": "SGD", "optimizer.params.momentum": 0.9})
    tiny = lambda step, rank: {"device_optimizer_states_bytes": 100 * MB, **extra}  # noqa: E731
    extra = {"device_grads_bytes": 120 * MB}
    assert found(small, memory=tiny) == {}  # 70 MB of 8.2 GB


def test_fragmentation():
    torn = lambda step, rank: {"peak_allocated_bytes": 6_000 * MB}  # noqa: E731
    finding = only("fragmentation", memory=torn)
    assert finding.gain.share == pytest.approx(2500 / 8500)
    retried = lambda step, rank: {"allocator_retries": 2}  # noqa: E731
    assert named(only("fragmentation", memory=retried))["retried allocations"] == "2"


def test_periodic_spikes():
    saving = lambda step, rank: (  # noqa: E731
        {"wall_ns": 300 * MS, "checkpoint_ns": 200 * MS} if step % 15 == 14 else {}
    )
    finding = only("periodic-spikes", steps=saving)
    assert finding.title == "Every 15 steps one takes far longer, in checkpoint."
    assert finding.gain.share == pytest.approx(800 / 6800)
    assert (finding.link.first_step, finding.link.last_step) == (14, 59)
    cheap = lambda step, rank: {"wall_ns": 130 * MS} if step % 15 == 14 else {}  # noqa: E731
    assert found(steps=cheap) == {}


def test_profiler_in_claim():
    window = lambda step, rank: {"profiled": 5 <= step < 50}  # noqa: E731
    finding = only("profiler-in-claim", steps=window)
    assert named(finding) == {"recorded": "60", "profiled": "45", "counted": "15"}
    short = lambda step, rank: {"profiled": 5 <= step < 8}  # noqa: E731
    assert found(steps=short) == {}


def test_the_largest_gain_comes_first():
    result = find_all(
        facts_of(
            steps=lambda step, rank: {
                "data_ns": 21 * MS,
                "wall_ns": 120 * MS,
                "clip_coefficient": 0.5,
            },
            comm=lambda step, rank: {"exposed_ns": 15 * MS},
        )
    )
    shares = [finding.gain.share for finding in result]
    assert [finding.id for finding in result] == [
        "exposed-communication",
        "data-bound",
        "clip-rate",
    ]
    assert shares == sorted(shares, reverse=True)


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_no_rule_fails_on_a_run_that_makes_no_sense(data):
    numbers = st.sampled_from([0, 1, 10**6, 10**9])
    chosen = data.draw(
        st.fixed_dictionaries(
            dict.fromkeys(("wall_ns", "data_ns", "forward_ns", "recompute_ns"), numbers)
        )
    )
    scale = data.draw(st.sampled_from([None, 0.0, 1.0, float("inf"), float("nan")]))
    skipped = data.draw(st.booleans())
    memory = data.draw(
        st.fixed_dictionaries(
            dict.fromkeys(("peak_allocated_bytes", "peak_reserved_bytes"), numbers)
        )
    )
    facts = facts_of(
        ranks=2,
        count=25,
        steps=lambda step, rank: {**chosen, "loss_scale": scale, "skipped": skipped},
        memory=lambda step, rank: memory,
        numerics=lambda step, rank: {"largest_magnitude": scale, "loss_scale": scale},
        comm=lambda step, rank: {"busy_ns": chosen["data_ns"], "calls": chosen["wall_ns"]},
    )
    for rule in RULES:
        rule(facts)


def test_the_readme_lists_every_rule():
    room = Path(catalogue.__file__).parent
    rules = {path.stem for path in room.glob("*.py") if "def find(" in path.read_text()}
    listed = re.findall(r"^\| `([a-z0-9-]+)` \|", (room.parent / "README.md").read_text(), re.M)
    assert sorted(listed) == sorted(rule.replace("_", "-") for rule in rules)
    assert len(RULES) == len(rules) == len(listed)
