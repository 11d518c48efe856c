"""Rules on communication, ranks and offload: each fires on a run with its cause only."""

import msgspec
import pytest

from probe.analyse.findings.finding import GainKind
from probe.schema.documents import Hang
from probe.schema.rows import CommCallRow
from probe.schema.vocabulary import CollectiveOp, Phase, Tier
from tests.analyse.made_run import (
    HEALTHY,
    MB,
    MS,
    OFFLOADED,
    ON_HOST,
    STAGE_3,
    configured,
    everywhere,
    found,
    moved,
    named,
    on_rank,
    only,
    settings_of,
)

SLICED = everywhere(device_params_bytes=50 * MB)


def test_exposed_communication():
    waiting = everywhere(exposed_ns=9 * MS)
    finding = only("exposed-communication", comm=waiting)
    assert finding.gain.share == pytest.approx(0.18)
    assert settings_of(finding)[0] == "--accumulate 2 --stage 1"
    assert named(finding)["hidden under compute"] == "10.0 %"
    apart = configured(settings={"zero.overlap_communication": False})
    finding = only("exposed-communication", apart, comm=waiting)
    assert settings_of(finding)[0] == "zero_optimization.overlap_comm: true"


def test_tiny_collectives():
    finding = only("tiny-collectives", comm=everywhere(calls=2000))
    assert named(finding)["bytes a call"] == "100 kB"
    assert settings_of(finding) == ["zero_optimization.stage3_param_persistence_threshold: larger"]


@pytest.mark.parametrize(
    "comm",
    [
        everywhere(calls=2000, exposed_ns=MS // 3),
        everywhere(calls=10, logical_bytes=MB),
        everywhere(calls=100),
    ],
    ids=["hidden", "few", "large"],
)
def test_collectives_that_are_hidden_few_or_large_are_not_too_many(comm):
    assert found(comm=comm) == {}


def gathers(exposed_ns, busy_ns=10 * MS):
    return everywhere(
        op=CollectiveOp.ALL_GATHER, phase=Phase.FORWARD, exposed_ns=exposed_ns, busy_ns=busy_ns
    )


def test_prefetch_not_effective():
    finding = only("prefetch-not-effective", STAGE_3, comm=gathers(8 * MS), memory=SLICED)
    assert settings_of(finding)[0] == "zero_optimization.stage3_prefetch_bucket_size: 100000000"
    assert finding.gain.share == pytest.approx(0.16)
    mostly_hidden, brief = gathers(4 * MS), gathers(1 * MS, busy_ns=1 * MS)
    assert found(STAGE_3, comm=mostly_hidden, memory=SLICED) == {}
    assert found(STAGE_3, comm=brief, memory=SLICED) == {}


def test_straggler_that_computes_longer():
    def calls(step, rank):
        op = CollectiveOp.REDUCE_SCATTER
        begin_ns = 15 * MS if rank == 2 else 0
        return [
            CommCallRow(
                step=step,
                sequence=step,
                phase=Phase.BACKWARD,
                op=op,
                wire_op=op,
                start_ns=begin_ns,
                end_ns=20 * MS,
            )
        ]

    slow = on_rank(2, forward_ns=45 * MS, reduce_wait_ns=0)
    finding = only("straggler", steps=slow, more=calls)
    assert finding.title == "Rank 2 holds the others up (slow compute)."
    assert named(finding)["who waits least"] == "rank 2, in 60 collectives"
    assert finding.gain.share == pytest.approx(0.15)


def test_straggler_with_a_slow_link():
    finding = only("straggler", comm=on_rank(3, busy_ns=16 * MS))
    assert finding.title == "Rank 3 holds the others up (slow link)."
    assert "GLOO_SOCKET_IFNAME" in finding.changes[0].setting


def test_a_rank_that_is_a_little_slower_is_no_straggler():
    # More than a tenth of its own work, and 4.5 % of a step that is mostly waiting.
    def mostly_waiting(step, rank):
        forward = 14_500_000 if rank == 1 else 10 * MS
        return {"forward_ns": forward, "backward_ns": 29 * MS, "reduce_wait_ns": 43 * MS}

    assert found(steps=mostly_waiting) == {}


def test_unbalanced_ranks_by_work():
    finding = only("unbalanced-ranks", steps=on_rank(1, tokens=2048))
    assert named(finding)["rank 1"] == "2,048 tokens a step"
    assert finding.gain.share == pytest.approx(0.8 * 0.6 / 1.6)
    assert found(steps=on_rank(1, tokens=1075)) == {}


def test_unbalanced_ranks_by_memory():
    def peak(size):
        return on_rank(1, peak_allocated_bytes=size * MB, peak_reserved_bytes=(size + 100) * MB)

    finding = only("unbalanced-ranks", memory=peak(9_300))
    assert finding.gain.kind is GainKind.MEMORY
    assert named(finding)["its peak"] == "9.30 GB"
    assert found(memory=peak(8_400)) == {}


def test_offload_bound():
    finding = only("offload-bound", OFFLOADED, memory=ON_HOST, more=moved(15 * MS))
    assert finding.gain.share == pytest.approx(0.15)
    assert settings_of(finding)[0] == "zero_optimization.offload_optimizer.pin_memory: true"
    assert found(OFFLOADED, memory=ON_HOST, more=moved(1 * MS)) == {}


def test_offload_to_disk_is_to_be_pipelined():
    finding = found(OFFLOADED, memory=ON_HOST, more=moved(15 * MS, Tier.DISK))["offload-bound"]
    assert "pipeline_read: true" in settings_of(finding)[0]


def test_hang():
    hang = Hang(
        time_ns=1,
        step=7,
        waiting=[0, 2],
        awaited=[1],
        still_s=30.0,
        message="no move for 30 s; rank 0 waits in all_gather of b.2; waited for: rank 1",
    )
    hung = msgspec.structs.replace(HEALTHY, hangs=[hang], started_ns=0, ended_ns=120 * 10**9)
    finding = only("hang", hung)
    assert finding.title == "Rank 1 held the others up for 30.0 s or more in step 7."
    assert named(finding)["seen"].startswith("no move for 30 s; rank 0 waits in all_gather")
    assert finding.gain.share == 0.25
    assert settings_of(finding)[0] == "look at rank 1"
    unknown = msgspec.structs.replace(HEALTHY, hangs=[Hang(still_s=5.0)])
    assert only("hang", unknown).title == "Something held the others up for 5.00 s or more."
