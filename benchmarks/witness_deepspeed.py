"""Does the engine train as DeepSpeed does? Losses and loss scales side by side, step by step.

`python -m benchmarks.witness_deepspeed` exits 1 if they come apart. Two defects of DeepSpeed 0.19.8
are known, and the witness is heard only where they do not speak: its head start at stage 0 in 16
bits is taken away (`peers/deepspeed_repaired.py`), and after a step at which the loss scale grew,
where it applies half the gradient, losses are shown but not judged.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.interleave import mean_losses
from benchmarks.setting import Setting
from benchmarks.team import Team
from probe.schema.vocabulary import Precision

STEPS = 30

TOLERANCE = {Precision.FP32: 1e-5, Precision.FP16: 2.0**-10, Precision.BF16: 2.0**-8}
"""Largest relative distance of two losses that is still rounding, at any of the 30 steps."""

OVERFLOWING_SCALE_POWER = 24
SHORT_WINDOW = 6
"""From so high a scale some steps overflow; then it settles, grows, and overflows again."""


@dataclass(frozen=True, kw_only=True)
class Course:
    """How one engine's training went, step by step."""

    losses: Sequence[float]
    scales: Sequence[float]
    skipped_steps: Sequence[int]


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """How far two courses agree."""

    distance: float
    """Largest relative distance of losses over the judged steps."""
    judged_steps: int
    tolerance: float
    scales_agree: bool

    @property
    def agrees(self) -> bool:
        """Whether losses and scales are both within what is allowed."""
        return self.distance <= self.tolerance and self.scales_agree


def run(contestant: str, setting: Setting, steps: int) -> Course:
    """Train one contestant and return its course."""
    with (
        TemporaryDirectory(prefix="witness_") as folder,
        Team(contestant=contestant, setting=setting, folder=Path(folder)) as team,
    ):
        turns = team.take_turn(steps)
        team.finish()
    first = turns[0]
    return Course(losses=mean_losses(turns), scales=first.scales, skipped_steps=first.skipped_steps)


def judge(ours: Course, theirs: Course, tolerance: float) -> Verdict:
    """Compare two courses up to the first step whose update DeepSpeed halves."""
    judged = _steps_before_growth(theirs)
    pairs = list(zip(ours.losses, theirs.losses, strict=True))[:judged]
    return Verdict(
        distance=max(abs(our - their) / abs(their) for our, their in pairs),
        judged_steps=judged,
        tolerance=tolerance,
        scales_agree=(
            list(ours.scales[:judged]) == list(theirs.scales[:judged])
            and list(ours.skipped_steps[:judged]) == list(theirs.skipped_steps[:judged])
        ),
    )


def _steps_before_growth(course: Course) -> int:
    """Count the steps whose loss and scale DeepSpeed's halved update cannot have touched.

    The step at which the scale grows is itself still sound: its loss was computed before.
    """
    for step, (before, after) in enumerate(zip(course.scales, course.scales[1:], strict=False), 1):
        if after > before:
            return step + 1
    return len(course.losses)


def witness_of(setting: Setting) -> str:
    """Name the contestant that speaks for DeepSpeed in this setting."""
    head_start = setting.stage == 0 and setting.precision is not Precision.FP32
    return "deepspeed_repaired" if head_start else "deepspeed"


def main(arguments: list[str] | None = None) -> int:
    """Compare in every setting asked for; 1 if any disagrees."""
    options = _parser().parse_args(arguments)
    failures = 0
    print(
        f"{'precision':9} {'stage':>5} {'judged':>6} {'first loss':>10} {'ours, last':>10} "
        f"{'theirs':>9} {'distance':>9} {'allowed':>8} {'scales':>6}  verdict"
    )
    for precision in [Precision(word) for word in options.precision.split(",")]:
        for stage in [int(word) for word in options.stage.split(",")]:
            setting = Setting(
                precision=precision, stage=stage, ranks=options.ranks, shape=options.shape
            )
            failures += not _compare(setting, options.ours, "")
    for stage in [int(word) for word in options.overflow_stage.split(",") if word]:
        setting = Setting(
            precision=Precision.FP16,
            stage=stage,
            ranks=options.ranks,
            shape=options.shape,
            initial_scale_power=OVERFLOWING_SCALE_POWER,
            scale_window=SHORT_WINDOW,
        )
        failures += not _compare(setting, options.ours, "overflowing")
    print("all agree" if failures == 0 else f"{failures} disagree")
    return int(failures > 0)


def _compare(setting: Setting, our_name: str, note: str) -> bool:
    ours = run(our_name, setting, STEPS)
    theirs = run(witness_of(setting), setting, STEPS)
    verdict = judge(ours, theirs, TOLERANCE[setting.precision])
    last = verdict.judged_steps - 1
    print(
        f"{setting.precision:9} {setting.stage:5} {verdict.judged_steps:6} {theirs.losses[0]:10.5f}"
        f" {ours.losses[last]:10.5f} {theirs.losses[last]:9.5f} {verdict.distance:9.1e}"
        f" {verdict.tolerance:8.1e} {'same' if verdict.scales_agree else 'DIFFER':>6}"
        f"  {'agrees' if verdict.agrees else 'DISAGREES'} {note}",
        flush=True,
    )
    if note or not verdict.scales_agree:
        _print_scales(ours, theirs)
    return verdict.agrees


def _print_scales(ours: Course, theirs: Course) -> None:
    print("  step   ours: scale skipped   theirs: scale skipped")
    rows = zip(ours.scales, ours.skipped_steps, theirs.scales, theirs.skipped_steps, strict=True)
    for step, (our_scale, our_skips, their_scale, their_skips) in enumerate(rows):
        print(f"  {step:4} {our_scale:13.0f} {our_skips:7} {their_scale:15.0f} {their_skips:7}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.witness_deepspeed", description=__doc__
    )
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--precision", default="fp32,bf16,fp16")
    parser.add_argument("--stage", default="0,1,2,3")
    parser.add_argument("--overflow-stage", default="1,2,3", help="empty leaves the overflow out")
    parser.add_argument("--shape", default="small")
    parser.add_argument("--ours", default="zeroprobe", help="who stands against DeepSpeed")
    return parser


if __name__ == "__main__":
    sys.exit(main())
