"""What recording costs: the same training with and without it, by turns on the same machine.

    python -m benchmarks.recording_overhead [--shape full,tiny] [--stage 1,3] [--precision bf16]
                                            [--races 9]

Prints for each setting the ratio of median step times with its 95 % interval, the difference in
microseconds a step, the processor time that the recorder itself took, and whether the losses agree
to the last bit. Two pairs of processes differ by a hundred microseconds a step for no reason but
where their memory lies, which no number of rounds averages out: several races, each with processes
of its own, and their median do.
"""

import argparse
import json
import random
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from statistics import median

from benchmarks.interleave import Plan, Race, Record, race
from benchmarks.machine import describe_machine
from benchmarks.setting import SHAPES, Setting
from benchmarks.summary import CONFIDENCE, DRAWS, compare
from benchmarks.table import title
from probe.schema.vocabulary import Precision

PLAIN, RECORDED = "zeroprobe", "zeroprobe_recorded"
LARGEST_RATIO = 1.02
LARGEST_US = 150.0
_TOLD = ("ratio", "added_us")


class Verdict(StrEnum):
    """Whether the target is held."""

    MET = "met"
    MISSED = "missed"
    UNDECIDED = "undecided"
    """The machine was too busy for an interval that answers."""


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What recording cost in one setting."""

    setting: str
    step_ms: float
    ratio: float
    low: float
    high: float
    cpu_ratio: float
    added_us: float
    """Median step with recording minus median step without."""
    added_low_us: float
    added_high_us: float
    recorder_us: float
    """Processor time inside the recorder, the median step of the slower rank."""
    equal_losses: bool
    others_share: float

    @property
    def verdict(self) -> Verdict:
        """At most 2 % more, or under 150 µs a step, by the whole interval; else undecided."""
        if self.high <= LARGEST_RATIO or self.added_high_us < LARGEST_US:
            return Verdict.MET
        if self.low > LARGEST_RATIO and self.added_low_us > LARGEST_US:
            return Verdict.MISSED
        return Verdict.UNDECIDED

    @property
    def recorder_share(self) -> float:
        """The recorder's own processor time over the step: what a busy machine hardly changes."""
        return self.recorder_us / 1e3 / self.step_ms


def cost_of(finished: Race) -> Cost:
    """Reduce a race of the two to figures."""
    plain, recorded = finished.records[PLAIN], finished.records[RECORDED]
    ratio = compare(recorded, plain)
    low_us, high_us = _difference_interval_us(recorded, plain)
    return Cost(
        setting=title(finished.setting),
        step_ms=_median_ns(plain) / 1e6,
        ratio=ratio.value,
        low=ratio.low,
        high=ratio.high,
        cpu_ratio=ratio.cpu,
        added_us=(_median_ns(recorded) - _median_ns(plain)) / 1e3,
        added_low_us=low_us,
        added_high_us=high_us,
        recorder_us=median(recorded.parts_ns["recording"]) / 1e3,
        equal_losses=plain.losses == recorded.losses,
        others_share=finished.others_share,
    )


def render(cost: Cost) -> str:
    """Three lines for a person."""
    return (
        f"{cost.setting}: {cost.step_ms:.2f} ms a step\n"
        f"  with recording × {cost.ratio:.4f} ({cost.low:.4f} to {cost.high:.4f}), CPU ×"
        f" {cost.cpu_ratio:.4f}; {cost.added_us:+.0f} µs a step ({cost.added_low_us:+.0f} to"
        f" {cost.added_high_us:+.0f}), the recorder itself {cost.recorder_us:.0f} µs\n"
        f"  losses {'equal bit for bit' if cost.equal_losses else 'DIFFER'}; target"
        f" {cost.verdict} by step times, the recorder itself {cost.recorder_share:.2%} of a step;"
        f" other processes took {cost.others_share:.0%}"
    )


def is_held(costs: Sequence[Cost]) -> bool:
    """One race must not miss the target by its whole interval; of several the median holds it."""
    if len(costs) == 1:
        return costs[0].verdict is not Verdict.MISSED
    ratio, added_us = (median(getattr(cost, name) for cost in costs) for name in _TOLD)
    return ratio <= LARGEST_RATIO or added_us < LARGEST_US


def over_races(costs: Sequence[Cost]) -> str:
    """A line for all races of a setting."""
    ratios, added_us = (sorted(getattr(cost, name) for cost in costs) for name in _TOLD)
    return (
        f"{costs[0].setting}, {len(costs)} races: × {median(ratios):.4f} ({ratios[0]:.4f} to"
        f" {ratios[-1]:.4f}), {median(added_us):+.0f} µs a step ({added_us[0]:+.0f} to"
        f" {added_us[-1]:+.0f}); target {'met' if is_held(costs) else 'missed'} by the medians"
    )


def main(arguments: list[str] | None = None) -> int:
    """Measure every setting asked for; 1 if a target is missed or a loss differs."""
    options = _parser().parse_args(arguments)
    costs: list[Cost] = []
    missed = False
    for shape in options.shape.split(","):
        for stage in options.stage.split(","):
            setting = Setting(
                precision=Precision(options.precision),
                stage=int(stage),
                shape=shape,
                micro_batch=options.micro_batch,
            )
            turn = options.turn_steps if shape == "full" else 10 * options.turn_steps
            plan = Plan(rounds=options.rounds, turn_steps=turn)
            of_setting = []
            for _ in range(options.races):
                of_setting.append(cost_of(race([PLAIN, RECORDED], setting, plan, _quiet)))
                print(render(of_setting[-1]), flush=True)
            if options.races > 1:
                print(over_races(of_setting), flush=True)
            costs += of_setting
            missed = missed or not is_held(of_setting)
    if options.into is not None:
        document = {"machine": describe_machine(), "costs": [asdict(cost) for cost in costs]}
        options.into.write_text(json.dumps(document, indent=1) + "\n")
    return int(missed or not all(cost.equal_losses for cost in costs))


def _median_ns(record: Record) -> float:
    return median(time for one_round in record.rounds_ns for time in one_round)


def _difference_interval_us(above: Record, below: Record, seed: int = 0) -> tuple[float, float]:
    """Where the difference of the medians lies; whole rounds are drawn, the same for both."""
    pairs = list(zip(above.rounds_ns, below.rounds_ns, strict=True))
    source = random.Random(seed)
    drawn = sorted(_difference(source.choices(pairs, k=len(pairs))) for _ in range(DRAWS))
    tail = round(DRAWS * (1 - CONFIDENCE) / 2)
    return drawn[tail] / 1e3, drawn[-1 - tail] / 1e3


def _difference(pairs: list[tuple[tuple[int, ...], tuple[int, ...]]]) -> float:
    return median(time for pair in pairs for time in pair[0]) - median(
        time for pair in pairs for time in pair[1]
    )


def _quiet(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.recording_overhead",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--shape", default="full,tiny", help=f"of {', '.join(SHAPES)}")
    parser.add_argument("--stage", default="1,3")
    parser.add_argument("--precision", default="bf16", choices=list(Precision))
    parser.add_argument("--micro-batch", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--races", type=int, default=1, help="each with processes of its own")
    parser.add_argument("--turn-steps", type=int, default=5, help="ten times as many where tiny")
    parser.add_argument("--into", type=Path, help="file for the figures as JSON")
    return parser


if __name__ == "__main__":
    sys.exit(main())
