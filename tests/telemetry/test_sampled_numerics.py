"""Exponents of gradients and weights: counted rightly, at the right steps, by the right rank."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import Parameter

from engine.config.policies import LossScalePolicy
from engine.numerics import BLOCK_ELEMENTS, LOOKED_AT_ELEMENTS, Numerics
from engine.partition import Member, Span, lay_out
from engine.segments import Segment
from probe.schema.rows import NumericsRow
from probe.schema.tables import NUMERICS
from probe.schema.vocabulary import Precision, TensorRole
from tests.engine.cases import config
from tests.engine.team import Team
from tests.telemetry.recorded import Tied, begin, micro_batch, recording_into, rows_of

SMALLEST_NORMAL = {torch.float16: 2.0**-14, torch.bfloat16: 2.0**-126, torch.float32: 2.0**-126}


def segment_of(
    gradient: Tensor, master: Tensor | None = None, target: Tensor | None = None
) -> Segment:
    master = torch.zeros(gradient.numel()) if master is None else master
    member = Member(
        name="w",
        parameter=Parameter(master),
        index=0,
        group=0,
        shape=torch.Size([gradient.numel()]),
    )
    return Segment(
        group=0,
        master=Parameter(master),
        gradient=gradient,
        target=target,
        spans=(Span(member=member, start=0, stop=gradient.numel(), offset=0),),
        layout=lay_out("bucket", [member], 1),
        start=0,
    )


def looked_at(segment: Segment, judged_by: torch.dtype = torch.float16) -> list[NumericsRow]:
    numerics = Numerics(
        every_steps=1, judged_by=judged_by, block_of={"w": "top"}, share=slice(None)
    )
    numerics.step_began(0)
    numerics.before_update([segment], 8.0)
    numerics.after_update([segment])
    return numerics.take()


values = st.one_of(
    st.floats(width=32, allow_subnormal=True),
    st.integers(-149, 127).map(lambda power: math.ldexp(1.0, power)),
    st.just(0.0),
)


@settings(max_examples=60, deadline=None)
@given(
    numbers=st.lists(values, min_size=1, max_size=40),
    judged_by=st.sampled_from(list(SMALLEST_NORMAL)),
)
@example(numbers=[2.0**-25, 2.0**-24, -(2.0**-14), 2.0**-26], judged_by=torch.float16)
@example(numbers=[2.0**-149, -(2.0**-134), 2.0**-133], judged_by=torch.bfloat16)
def test_counts_are_those_of_a_cast(numbers: list[float], judged_by: torch.dtype) -> None:
    gradient = torch.tensor(numbers, dtype=torch.float32)
    row, _ = looked_at(segment_of(gradient), judged_by)
    finite = gradient[gradient.isfinite()]
    size = finite.abs()
    vanishes = (size > 0) & (finite.to(judged_by) == 0)
    small = (size > 0) & ~vanishes & (size < SMALLEST_NORMAL[judged_by])
    assert row.zero_elements == int((size == 0).sum())
    assert row.underflow_elements == int(vanishes.sum())
    assert row.subnormal_elements == int(small.sum())
    assert row.nonfinite_elements == len(numbers) - finite.numel()
    assert row.largest_magnitude == (float(size.max()) if finite.numel() else None)
    assert row.tensor_elements == len(numbers)
    exponents = np.frexp(size[size >= 2.0**-126].double().numpy())[1] - 1
    expected = dict(zip(*np.unique(exponents, return_counts=True), strict=True))
    tiny = int(((size > 0) & (size < 2.0**-126)).sum())
    if tiny:
        expected[-127] = tiny
    counted = {row.lowest_exponent + at: n for at, n in enumerate(row.exponent_elements) if n}
    assert counted == expected


def test_lost_updates_are_weights_that_16_bits_leave_as_they_were() -> None:
    before = torch.tensor([1.0, 1.0, 1.0, 1.0]).to(torch.bfloat16)
    master = torch.tensor([1.0 + 2**-10, 1.25, 1.0 - 2**-12, 1.0])
    gradient = torch.tensor([1.0, 1.0, -1.0, 0.0]).to(torch.bfloat16)
    _, weight = looked_at(segment_of(gradient, master, before), torch.bfloat16)
    assert (weight.role, weight.lost_update_elements) == (TensorRole.WEIGHT, 2)
    assert weight.largest_magnitude == 1.25
    _, whole = looked_at(segment_of(gradient, master), torch.float32)
    assert whole.lost_update_elements is None, "in fp32 nothing is rounded away"


def test_of_a_long_piece_even_blocks_are_looked_at() -> None:
    gradient = torch.ones(3 * LOOKED_AT_ELEMENTS + BLOCK_ELEMENTS // 2)
    gradient[: gradient.numel() // 2] = 2.0
    row, _ = looked_at(segment_of(gradient))
    assert LOOKED_AT_ELEMENTS / 2 < row.tensor_elements <= LOOKED_AT_ELEMENTS
    assert row.lowest_exponent == 0
    ones, twos = row.exponent_elements
    assert ones == pytest.approx(twos, rel=0.05)


def test_a_turn_that_fell_on_a_skipped_step_is_taken_later() -> None:
    numerics = Numerics(every_steps=10, judged_by=torch.float16, block_of={}, share=slice(None))
    sampled = []
    for step in range(40):
        numerics.step_began(step)
        if step in (5, 6, 25):
            continue  # Skipped: nothing is updated.
        numerics.before_update([segment_of(torch.ones(1))], 1.0)
        sampled += [row.step for row in numerics.take()]
    assert sampled == [7, 15, 26, 35]


def sampled_run(run_dir: str, stage: int, precision: Precision) -> None:
    with recording_into(run_dir, numerics_every=3):
        trainer = begin(
            config(stage, precision=precision, scale=LossScalePolicy(static_scale=64.0))
        )
        for number in range(4):
            micro_batch(trainer, number)
        trainer.close()


@pytest.mark.parametrize("stage", [0, 1, 3])
@pytest.mark.parametrize("precision", [Precision.FP16, Precision.AMP_BF16], ids=str)
def test_ranks_share_the_work_and_cover_the_model(
    teams: dict[int, Team], tmp_path: Path, stage: int, precision: Precision
) -> None:
    teams[2].run(sampled_run, run_dir=str(tmp_path), stage=stage, precision=precision)
    rows = rows_of(tmp_path, NUMERICS)
    assert {row["step"] for row in rows} == {2}
    assert {row["rank"] for row in rows} == {0, 1}
    sizes = {name: parameter.numel() for name, parameter in Tied().named_parameters()}
    half = precision is Precision.FP16
    for role in ("gradient", "weight"):
        covered: dict[str, int] = dict.fromkeys(sizes, 0)
        for row in rows:
            if row["role"] == role:
                covered[row["parameter"]] += row["tensor_elements"]
                assert row["dtype"] == ("fp16" if half else "bf16")
                assert row["loss_scale"] == ({"gradient": 64.0 if half else 1.0}.get(role))
                told: Any = row["lost_update_elements"]
                assert (told is not None) == (half and role == "weight")
        assert covered == sizes
    assert {row["block"] for row in rows} == {"embed", "blocks.0", "blocks.1", "blocks.2"}
