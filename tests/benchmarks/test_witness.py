"""How the witness judges two courses, and the witness itself where DeepSpeed is installed."""

from importlib.util import find_spec

import pytest

from benchmarks import witness_deepspeed
from benchmarks.setting import Setting
from benchmarks.witness_deepspeed import Course, judge, witness_of
from probe.schema.vocabulary import Precision


def course_of(losses, scales=None, skipped=None) -> Course:
    steps = len(losses)
    return Course(
        losses=losses, scales=scales or [1.0] * steps, skipped_steps=skipped or [0] * steps
    )


def test_equal_courses_agree_over_all_steps():
    verdict = judge(course_of([3.0, 2.0, 1.0]), course_of([3.0, 2.0, 1.0]), tolerance=0.0)
    assert verdict.agrees
    assert verdict.judged_steps == 3


def test_one_distant_loss_is_a_disagreement():
    verdict = judge(course_of([3.0, 2.2]), course_of([3.0, 2.0]), tolerance=0.05)
    assert not verdict.agrees
    assert verdict.distance == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("scales", "skipped"), [([8.0, 4.0, 4.0], [1, 2, 2]), ([8.0, 8.0, 8.0], [1, 1, 1])]
)
def test_another_scale_or_skip_is_a_disagreement(scales, skipped):
    theirs = course_of([1.0, 1.0, 1.0], [8.0, 4.0, 4.0], [1, 1, 1])
    assert not judge(course_of([1.0, 1.0, 1.0], scales, skipped), theirs, tolerance=1.0).agrees


def test_nothing_is_judged_after_the_update_that_deepspeed_halves():
    # GIVEN its scale grows at step 1, whose loss was computed before
    theirs = course_of([3.0, 2.0, 9.0], [4.0, 8.0, 8.0])
    ours = course_of([3.0, 2.0, 1.0], [4.0, 8.0, 4.0])
    # THEN steps 0 and 1 are judged, and step 2 is not
    verdict = judge(ours, theirs, tolerance=0.0)
    assert verdict.judged_steps == 2
    assert verdict.agrees


def test_only_the_16_bit_stage_0_is_repaired():
    repaired = [
        (precision, stage)
        for precision in (Precision.FP32, Precision.BF16, Precision.FP16)
        for stage in range(4)
        if witness_of(Setting(precision=precision, stage=stage)) == "deepspeed_repaired"
    ]
    assert repaired == [(Precision.BF16, 0), (Precision.FP16, 0)]


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.skipif(find_spec("deepspeed") is None, reason="needs deepspeed: make bench-venv")
def test_the_engine_trains_as_deepspeed_does(capsys):
    status = witness_deepspeed.main(["--precision", "fp32,bf16", "--stage", "1,3"])
    assert status == 0, capsys.readouterr().out
