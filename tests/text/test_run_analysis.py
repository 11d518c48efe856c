"""The tables of one run at 80 columns, to the letter, and what is left out of them."""

from collections.abc import Callable
from typing import Any

import pytest
from rich.console import Group

from probe.analyse.findings.catalogue import find_all
from probe.analyse.run_facts import RunFacts, run_facts
from probe.schema.documents import Manifest
from probe.schema.rows import CommCallRow, OverflowRow
from probe.schema.tables import TABLES
from probe.schema.vocabulary import (
    CollectiveOp,
    NonFinite,
    Phase,
    Precision,
    SkipReason,
    TensorRole,
)
from probe.text.communication_table import communication_table
from probe.text.precision_table import precision_table
from probe.text.run_analysis import run_analysis
from probe.text.time_table import bar
from tests.analyse.hand_built import table_of
from tests.analyse.made_run import MB, MS, configured, facts_of

Shown = Callable[[Any], str]

WHOLE = """\
Nothing stands out in 60 steps.

phase         median    share
data         1.00 ms    1.0 %  ▎
forward      30.0 ms   30.0 %  ███████▎
backward     50.0 ms   50.0 %  ████████████
reduce_wait  2.00 ms    2.0 %  ▌
optimizer    15.0 ms   15.0 %  ███▋
other        2.00 ms    2.0 %  ▌
sum                   100.0 %
60 of 60 steps count
noise 0.0 % (MAD / median), 95 % of the steps within 100 ms
320 samples/s, 41.0 k tokens/s, 24.6 T model FLOPs/s (2.0 % of the peak)

memory            tier    measured   theory  residual
params            device    200 MB   200 MB
grads             device   50.0 MB  50.0 MB
grad_buckets      device    100 MB        –            buckets
master_params     device    100 MB   100 MB
optimizer_states  device    200 MB   200 MB
activations       device   7.50 GB        –
outside           device   50.0 MB        –            temporary
outside           device    300 MB        –            fragmentation
peak 8.20 GB by the allocator on rank 0 in step 0; 1.50 GB free (15.0 %)

operation       phase      calls  payload     busy  exposed      busbw
all_gather      optimizer      8   200 MB  10.0 ms  3.00 ms  15.0 GB/s
reduce_scatter  backward       8   200 MB  10.0 ms  2.00 ms  15.0 GB/s
reduction: 200 MB asked for, as the closed form says
gather: 200 MB asked for, as the closed form says
5.0 % of the step is exposed; 75.0 % of the busy time is hidden

scale        2^16 for 60 steps
gradients    0.1 % underflow, 0.0 % subnormal, 7.0 powers of room

"""


def analysed(facts: RunFacts) -> Group:
    return Group(*run_analysis(facts, find_all(facts)))


def test_a_healthy_run_in_full(shown: Shown) -> None:
    assert shown(analysed(facts_of())) == WHOLE


def test_a_run_that_tells_nothing_has_no_tables(shown: Shown) -> None:
    tables = {table: table_of(table, {}) for table in TABLES}
    assert shown(analysed(run_facts(Manifest(), tables))) == ""


def test_what_was_left_out_is_counted_by_its_reason(shown: Shown) -> None:
    def steps(step: int, rank: int) -> dict[str, Any]:
        skipped = {"skipped": True, "skip_reason": SkipReason.OVERFLOW}
        return {"profiled": step in (7, 8), **(skipped if step == 20 else {})}

    said = shown(analysed(facts_of(steps=steps)))
    assert "57 of 60 steps count; left out: 2 profiled, 1 skipped\n" in said


def test_scale_and_skips_in_a_few_lines(shown: Shown) -> None:
    def steps(step: int, rank: int) -> dict[str, Any]:
        scale = 65536.0 if step < 2 else 32768.0 if step < 40 else 300.0
        bad = step in (0, 1, 39)
        return {
            "loss_scale": scale,
            "loss_scale_next": scale,
            "skipped": bad,
            "skip_reason": SkipReason.OVERFLOW if bad else None,
            "clip_coefficient": 0.5 if step % 3 else 1.0,
        }

    def more(step: int, rank: int) -> list[Any]:
        offender = OverflowRow(
            step=step,
            role=TensorRole.GRADIENT,
            kind=NonFinite.NAN,
            parameter="a\x1b.b",
            first=True,
        )
        return [offender] if step == 39 and rank == 0 else []

    said = shown(Group(*precision_table(facts_of(steps=steps, more=more))))
    assert said == (
        "scale        2^16 for 2, 2^15 for 38, 300 for 20 steps\n"
        "skips        2 overflows at the start, 1 later; 300 ms lost (5.0 %)\n"
        "began in     a\\x1b.b on rank 0 (100.0 % of the overflows)\n"
        "gradients    0.1 % underflow, 0.0 % subnormal, 7.0 powers of room\n"
        "clipped      68.4 % of the steps\n"
    )


def test_a_scale_of_one_is_no_scale() -> None:
    bf16 = configured(precision=Precision.BF16)
    facts = facts_of(
        bf16,
        steps=lambda step, rank: {"loss_scale": 1.0, "loss_scale_next": 1.0},
        numerics=lambda step, rank: {"role": TensorRole.WEIGHT},
    )
    assert precision_table(facts) == []


def test_what_gloo_sends_beyond_the_true_volume_is_said(shown: Shown) -> None:
    def comm(step: int, rank: int) -> dict[str, Any]:
        return {
            "op": CollectiveOp.REDUCE_SCATTER,
            "wire_op": CollectiveOp.ALL_REDUCE,
            "logical_bytes": 100 * MB,
            "wire_bytes": 150 * MB,
        }

    def more(step: int, rank: int) -> list[Any]:
        op = CollectiveOp.REDUCE_SCATTER
        moments = {"start_ns": 5 * rank * MS, "end_ns": 30 * MS}
        return [
            CommCallRow(step=step, sequence=1, phase=Phase.BACKWARD, op=op, wire_op=op, **moments)
        ]

    said = shown(Group(*communication_table(facts_of(comm=comm, more=more))))
    assert "reduction: 200 MB asked for, as the closed form says; as all_reduce it sent" in said
    assert "2.00× the true volume\n" in said
    assert "33.3 % of 60 timed collectives is waiting for peers, least by rank 3\n" in said


@pytest.mark.parametrize(
    ("share", "drawn"), [(0.0, ""), (1.0, "█" * 24), (0.5, "█" * 12), (-0.1, ""), (1 / 192, "▏")]
)
def test_a_share_as_a_bar(share: float, drawn: str) -> None:
    assert bar(share) == drawn
