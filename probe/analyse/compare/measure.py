"""The figures that two sides are compared by: each with its values, its change and a verdict.

Measured ones (times and rates) have an interval, and are judged by it. Counted ones (bytes, skips,
a loss at equal seed) are the same in every start of the same program and are compared as they
stand; those that an allocator or the system tells may stray a little and have a tolerance. Of
several runs on a side a measured figure is the geometric mean of their medians, a counted one the
median of the runs that tell it.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

from probe.analyse.compare.change import MATERIAL, Change, Direction, compare_medians
from probe.analyse.compare.history import EqualRun, known_spread
from probe.analyse.compare.loss_curve import final_loss
from probe.analyse.compare.measured_run import MeasuredRun
from probe.analyse.statistics.median import MedianEstimate

METRIC = "metric."
"""Before the name of a metric that the user logged."""
STATISTICAL = ("step_time", "throughput", "exposed_time")
COUNTED = ("peak_memory", "host_memory", "wire_bytes", "skipped", "loss_scale", "final_loss")
MEASURES = (*STATISTICAL, *COUNTED)
ALLOCATOR_TOLERANCE = 0.005
SYSTEM_TOLERANCE = 0.02


class MeasureUnit(StrEnum):
    """What a measure counts in."""

    NANOSECONDS = "ns"
    BYTES = "bytes"
    RATE = "per second"
    COUNT = "count"
    NUMBER = "number"


class Verdict(StrEnum):
    """What may be said of B against A."""

    FASTER = "faster"
    SLOWER = "slower"
    SAME = "same"
    """Within the band or the tolerance."""
    INCONCLUSIVE = "inconclusive"
    EQUAL = "equal"
    """To the last digit."""
    MORE = "more"
    LESS = "less"
    UNKNOWN = "unknown"
    """A side does not tell, or tells without an interval."""


class Outcome(StrEnum):
    """Whether a verdict is good news for B."""

    BETTER = "better"
    WORSE = "worse"
    NEUTRAL = "neutral"


@dataclass(frozen=True, kw_only=True)
class MeasureChange:
    """One figure of both sides."""

    name: str
    unit: MeasureUnit
    of: str
    """What exactly was measured: tokens, the allocator's peak, up to which step; empty where the
    name says it."""
    first: float | None
    second: float | None
    relative: float | None
    """B over A, minus 1; None where A is 0 or a side does not tell."""
    change: Change | None
    """The ratio with its interval; None for a counted figure."""
    first_noise: float | None
    """MAD / median of the step, the largest of the side's runs."""
    second_noise: float | None
    first_effective: float | None
    """How many independent steps the counted ones are worth, the fewest of the side's runs."""
    second_effective: float | None
    verdict: Verdict
    outcome: Outcome


def compare_measures(
    first: Sequence[MeasuredRun],
    second: Sequence[MeasuredRun],
    *,
    material: float = MATERIAL,
    history: Sequence[Sequence[EqualRun]] = (),
) -> tuple[MeasureChange, ...]:
    """Every figure that any run of both sides tells; time first, metrics last.

    `history` holds, for each side, other runs of its setup.
    """
    sides = (first, second)
    rates = {run.throughput_of for side in sides for run in side if run.throughput_of}
    alike = len(rates) == 1
    found = [
        _measured(
            "step_time", sides, lambda run: run.step_time, material=material, history=history
        ),
        _measured(
            "throughput",
            sides,
            lambda run: run.throughput if alike else None,
            material=material,
            history=history,
            of=next(iter(rates)) if alike else "",
        ),
        _exposed(sides, material, history),
        *_memory(sides),
        _counted("wire_bytes", sides, _wire_bytes, unit=MeasureUnit.BYTES),
        _counted("skipped", sides, lambda run: run.skipped_steps, unit=MeasureUnit.COUNT),
        _counted("loss_scale", sides, lambda run: run.last_scale, good_if_less=None),
        _final_loss(sides),
    ]
    names = {name: None for side in sides for run in side for name in run.metrics}
    found += [_metric(name, sides) for name in names]
    return tuple(item for item in found if not (item.first is None and item.second is None))


def named(measures: Sequence[MeasureChange], name: str) -> MeasureChange | None:
    """The measure of this name, if the runs tell it."""
    return next((item for item in measures if item.name == name), None)


Sides = tuple[Sequence[MeasuredRun], Sequence[MeasuredRun]]


def _measured(
    name: str,
    sides: Sides,
    estimate: Callable[[MeasuredRun], MedianEstimate | None],
    *,
    material: float,
    history: Sequence[Sequence[EqualRun]],
    of: str = "",
) -> MeasureChange:
    told = [[item for run in side if (item := estimate(run))] for side in sides]
    values = [_middle(side) for side in told]
    known = known_spread(history, name)
    change = compare_medians(*told, material=material, known=known) if all(told) else None
    verdict = _verdict_of(name, change)
    return MeasureChange(
        name=name,
        unit=MeasureUnit.RATE if name == "throughput" else MeasureUnit.NANOSECONDS,
        of=of,
        first=values[0],
        second=values[1],
        relative=change.ratio - 1 if change else None,
        change=change,
        first_noise=max((item.noise for item in told[0]), default=None),
        second_noise=max((item.noise for item in told[1]), default=None),
        first_effective=min((item.effective_count for item in told[0]), default=None),
        second_effective=min((item.effective_count for item in told[1]), default=None),
        verdict=verdict,
        outcome=_outcome(verdict, good_if_less=True),
    )


def _middle(side: Sequence[MedianEstimate]) -> float | None:
    """The geometric mean of the medians of a side's runs."""
    if len(side) < 2:
        return side[0].median if side else None
    return math.exp(float(np.mean([item.log_median for item in side])))


def _verdict_of(name: str, change: Change | None) -> Verdict:
    if change is None:
        return Verdict.UNKNOWN
    higher, lower = {
        "step_time": (Verdict.SLOWER, Verdict.FASTER),
        "throughput": (Verdict.FASTER, Verdict.SLOWER),
        "exposed_time": (Verdict.MORE, Verdict.LESS),
    }[name]
    return {
        Direction.HIGHER: higher,
        Direction.LOWER: lower,
        Direction.SAME: Verdict.SAME,
        Direction.INCONCLUSIVE: Verdict.INCONCLUSIVE,
    }[change.direction]


def _exposed(sides: Sides, material: float, history: Sequence[Sequence[EqualRun]]) -> MeasureChange:
    """Waiting for communication; where some steps do not wait at all there is no ratio."""
    if all(run.exposed for side in sides for run in side):
        return _measured(
            "exposed_time", sides, lambda run: run.exposed, material=material, history=history
        )
    plain = _counted(
        "exposed_time", sides, lambda run: run.exposed_ns, unit=MeasureUnit.NANOSECONDS
    )
    if plain.verdict is Verdict.EQUAL:
        return plain
    return _without_verdict(plain)


def _memory(sides: Sides) -> list[MeasureChange]:
    bases = {run.memory.peak.from_allocator for side in sides for run in side if run.memory}
    if not bases:
        return []
    peak = _counted(
        "peak_memory",
        sides,
        lambda run: run.memory.peak.peak_bytes if run.memory else None,
        unit=MeasureUnit.BYTES,
        tolerance=ALLOCATOR_TOLERANCE if True in bases else 0.0,
        of={True: "allocator", False: "ledger"}[True in bases] if len(bases) == 1 else "mixed",
    )
    host = _counted(
        "host_memory",
        sides,
        lambda run: run.memory.peak_rss_bytes if run.memory else None,
        unit=MeasureUnit.BYTES,
        tolerance=SYSTEM_TOLERANCE,
        of="resident",
    )
    return [peak if len(bases) == 1 else _without_verdict(peak), host]


def _counted(
    name: str,
    sides: Sides,
    value: Callable[[MeasuredRun], float | None],
    *,
    unit: MeasureUnit = MeasureUnit.NUMBER,
    tolerance: float = 0.0,
    good_if_less: bool | None = True,
    of: str = "",
) -> MeasureChange:
    told = [[item for run in side if (item := value(run)) is not None] for side in sides]
    first, second = (float(np.median(side)) if side else None for side in told)
    relative = second / first - 1 if first and second is not None else None
    verdict = _plain_verdict(first, second, tolerance)
    return MeasureChange(
        name=name,
        unit=unit,
        of=of,
        first=first,
        second=second,
        relative=relative,
        change=None,
        first_noise=None,
        second_noise=None,
        first_effective=None,
        second_effective=None,
        verdict=verdict,
        outcome=_outcome(verdict, good_if_less=good_if_less),
    )


def _final_loss(sides: Sides) -> MeasureChange:
    """Where runs differ in length, the loss at the end of the shortest: later is not worse."""
    ends = {int(run.losses.step[-1]) for side in sides for run in side if len(run.losses.step)}
    last_step = min(ends, default=None)
    return _counted(
        "final_loss",
        sides,
        lambda run: final_loss(run.losses, last_step=last_step),
        of=f"to step {last_step}" if len(ends) > 1 else "",
    )


def _metric(name: str, sides: Sides) -> MeasureChange:
    """The last value that the user logged; nobody told us whether more is better."""
    return _counted(f"{METRIC}{name}", sides, lambda run: run.metrics.get(name), good_if_less=None)


def _plain_verdict(first: float | None, second: float | None, tolerance: float) -> Verdict:
    if first is None or second is None:
        return Verdict.UNKNOWN
    if first == second or (math.isnan(first) and math.isnan(second)):
        return Verdict.EQUAL
    if math.isnan(first) or math.isnan(second):
        return Verdict.UNKNOWN
    if abs(second - first) <= tolerance * abs(first):
        return Verdict.SAME
    return Verdict.MORE if second > first else Verdict.LESS


def _outcome(verdict: Verdict, *, good_if_less: bool | None) -> Outcome:
    if verdict in (Verdict.FASTER, Verdict.SLOWER):
        return Outcome.BETTER if verdict is Verdict.FASTER else Outcome.WORSE
    if verdict not in (Verdict.MORE, Verdict.LESS) or good_if_less is None:
        return Outcome.NEUTRAL
    return Outcome.BETTER if (verdict is Verdict.LESS) is good_if_less else Outcome.WORSE


def _without_verdict(item: MeasureChange) -> MeasureChange:
    return replace(item, verdict=Verdict.UNKNOWN, outcome=Outcome.NEUTRAL)


def _wire_bytes(run: MeasuredRun) -> float | None:
    """Bytes that a rank sends in a counted step, to the whole byte."""
    return float(round(run.traffic.wire_bytes)) if run.traffic else None
