"""Runs side by side: what they are, what differs, what may be said of it, and where it comes from.

The first side is the one that all others are held against. A side is one run or several starts of
the same one; then the run is the unit, and what runs do by themselves is known.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from probe.analyse.compare.change import CONFIDENCE, MATERIAL
from probe.analyse.compare.comparability import Comparability, Effect, Judgement, compare_setups
from probe.analyse.compare.history import EqualRun
from probe.analyse.compare.loss_curve import LossParting, losses_part
from probe.analyse.compare.measure import MeasureChange, compare_measures, named
from probe.analyse.compare.measured_run import MeasuredRun
from probe.analyse.compare.operator_shifts import OperatorShift, TracedTime, operator_shifts
from probe.analyse.compare.shifts import (
    ExchangeShift,
    MemoryShift,
    TrafficShift,
    exchange_shifts,
    memory_shifts,
    traffic_shifts,
)
from probe.analyse.compare.waterfall import Waterfall, waterfall
from probe.analyse.outline import outline
from probe.analyse.statistics.student import quantile
from probe.analyse.steps.steps import Exclusion
from probe.schema.vocabulary import Precision, RunStatus, Tier
from probe.units import format_percent

LEAST_STEPS = 10
"""With fewer counted steps an interval says more of the method than of the run."""
NOISY = 0.1
"""MAD / median from which steps are called noisy."""


@dataclass(frozen=True, kw_only=True)
class RunLine:
    """One run as the table of runs tells it."""

    side: str
    name: str
    path: str
    status: RunStatus
    precision: Precision | None
    stage: int | None
    offload_optimizer: Tier
    offload_params: Tier
    world_size: int
    recorded_steps: int
    counted_steps: int
    excluded: Mapping[Exclusion, int]
    """Steps that do not count, by reason; every reason is there, also with 0."""
    step_time_ns: float | None
    step_time_reach: float | None
    """Half of the 95 % interval of the step time within the run, as a share of it."""
    noise: float | None
    autocorrelation: float | None
    effective_steps: float | None
    throughput: float | None
    throughput_of: str
    peak_memory_bytes: int | None
    final_loss: float | None
    metrics: Mapping[str, float]
    skipped_steps: int
    step_time_outline: tuple[float, ...]
    """Medians of the step time over equal stretches of the run, for a sparkline."""
    loss_outline: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class Pair:
    """A later side against the first."""

    first: str
    second: str
    comparability: Comparability
    headline: MeasureChange | None
    """Step time; throughput where a step does other work. None without either."""
    measures: tuple[MeasureChange, ...]
    waterfall: Waterfall | None
    memory: tuple[MemoryShift, ...]
    traffic: tuple[TrafficShift, ...]
    exchanges: tuple[ExchangeShift, ...]
    """The payload of that traffic beside the closed form."""
    operators: tuple[OperatorShift, ...]
    """Of the first run of each side that has a trace; empty unless both have one."""
    losses: LossParting | None
    """Of the first run of each side; None without a step that both have."""
    caveats: tuple[str, ...]
    """What to keep in mind, in sentences."""


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """All runs, and every later side against the first."""

    material: float
    confidence: float
    runs: tuple[RunLine, ...]
    pairs: tuple[Pair, ...]


def compare_runs(
    sides: Sequence[Sequence[MeasuredRun]],
    *,
    material: float = MATERIAL,
    meant: Sequence[str] = (),
    history: Sequence[Sequence[EqualRun]] = (),
) -> Comparison:
    """Compare two or more sides of at least one run each; `history` as `history_of` finds it."""
    assert len(sides) >= 2
    assert all(sides)
    history = history or [()] * len(sides)
    labels = [side_label(index) for index in range(len(sides))]
    return Comparison(
        material=material,
        confidence=CONFIDENCE,
        runs=tuple(
            _run_line(label, run) for label, side in zip(labels, sides, strict=True) for run in side
        ),
        pairs=tuple(
            _pair(
                sides[0],
                side,
                labels=(labels[0], label),
                material=material,
                meant=meant,
                history=(history[0], known),
            )
            for label, side, known in zip(labels[1:], sides[1:], history[1:], strict=True)
        ),
    )


def side_label(index: int) -> str:
    """A, B, …, Z, S27, S28, …"""
    return chr(ord("A") + index) if index < 26 else f"S{index + 1}"


def _run_line(label: str, run: MeasuredRun) -> RunLine:
    config, time = run.manifest.config, run.step_time
    reach = quantile((1 + CONFIDENCE) / 2, time.degrees) * time.standard_error if time else None
    return RunLine(
        side=label,
        name=run.name,
        path=run.path,
        status=run.status,
        precision=config.precision,
        stage=config.stage,
        offload_optimizer=config.offload_optimizer,
        offload_params=config.offload_params,
        world_size=run.manifest.world_size,
        recorded_steps=run.counted.recorded,
        counted_steps=len(run.counted),
        excluded=run.counted.excluded,
        step_time_ns=time.median if time else None,
        step_time_reach=reach,
        noise=time.noise if time else None,
        autocorrelation=time.autocorrelation if time else None,
        effective_steps=time.effective_count if time else None,
        throughput=run.throughput.median if run.throughput else None,
        throughput_of=run.throughput_of,
        peak_memory_bytes=run.memory.peak.peak_bytes if run.memory else None,
        final_loss=run.final_loss,
        metrics=run.metrics,
        skipped_steps=run.skipped_steps,
        step_time_outline=outline(run.counted.wall_ns),
        loss_outline=outline(run.losses.loss[run.losses.applied]),
    )


def _pair(
    first: Sequence[MeasuredRun],
    second: Sequence[MeasuredRun],
    *,
    labels: tuple[str, str],
    material: float,
    meant: Sequence[str],
    history: tuple[Sequence[EqualRun], Sequence[EqualRun]],
) -> Pair:
    comparability = compare_setups(
        first[0].setup,
        second[0].setup,
        labels=labels,
        meant=meant,
        obstacles=_obstacles((first, second), labels, meant),
    )
    measures = compare_measures(first, second, material=material, history=history)
    time, rate = named(measures, "step_time"), named(measures, "throughput")
    other_work = comparability.touches(Effect.WORK) and rate and rate.change
    losses = losses_part(first[0].losses, second[0].losses)
    return Pair(
        first=labels[0],
        second=labels[1],
        comparability=comparability,
        headline=rate if other_work else time,
        measures=measures,
        waterfall=waterfall([run.counted for run in first], [run.counted for run in second]),
        memory=memory_shifts(first, second),
        traffic=traffic_shifts(first, second),
        exchanges=exchange_shifts(first, second),
        operators=operator_shifts(*(_traced(side) for side in (first, second))),
        losses=losses if losses.common_steps else None,
        caveats=tuple(_caveats((first, second), labels, comparability, measures)),
    )


def _traced(side: Sequence[MeasuredRun]) -> TracedTime | None:
    return next((run.traced for run in side if run.traced), None)


def _obstacles(
    sides: tuple[Sequence[MeasuredRun], Sequence[MeasuredRun]],
    labels: tuple[str, str],
    meant: Sequence[str],
) -> list[str]:
    """What makes a comparison void apart from what was set up."""
    sentences = []
    for side, label in zip(sides, labels, strict=True):
        sentences += [f"{label} recorded no steps" for run in side if not run.counted.recorded]
        for run in side[1:]:
            apart = compare_setups(side[0].setup, run.setup, meant=meant)
            if apart.judgement is not Judgement.COMPARABLE:
                what = ", ".join(apart.reasons)
                sentences.append(f"the runs of {label} are not starts of the same: {what}")
    throughout = [{run.profiled_throughout for run in side} for side in sides]
    if throughout[0] != throughout[1]:
        label = labels[0] if True in throughout[0] else labels[1]
        sentences.append(f"every step of {label} was profiled, of the other not")
    return list(dict.fromkeys(sentences))


def _caveats(
    sides: tuple[Sequence[MeasuredRun], Sequence[MeasuredRun]],
    labels: tuple[str, str],
    comparability: Comparability,
    measures: Sequence[MeasureChange],
) -> list[str]:
    sentences = []
    if comparability.touches(Effect.WORK):
        sentences.append("A step does other work: throughput compares, step time does not.")
    if comparability.touches(Effect.TIME):
        sentences.append("Machine, versions or surroundings differ: times may for their sake.")
    if any(item.change and item.change.between_runs is None for item in measures):
        sentences.append(
            "One run a side: how much runs vary by themselves is unknown. Repeat both."
        )
    if (time := named(measures, "step_time")) and time.change and time.change.history:
        sentences.append(
            f"One run a side: {time.change.history} other runs of the same setup in this folder "
            f"vary by {format_percent(time.change.between_runs or 0.0)} (standard deviation of "
            "step time), and the intervals allow for it."
        )
    if all(run.profiled_throughout for side in sides for run in side):
        sentences.append("Every step was profiled: times carry what the profiler costs.")
    for side, label in zip(sides, labels, strict=True):
        for run in side:
            if run.status is not RunStatus.FINISHED:
                sentences.append(f"{label} ({run.status}) did not end as planned.")
            if run.problems:
                many = f"{run.problems:,} problem{'s' if run.problems > 1 else ''}"
                sentences.append(f"{label} has {many} in its files; `probe doctor` tells which.")
            if run.counted.recorded and len(run.counted) < LEAST_STEPS:
                count = len(run.counted)
                steps = "1 step" if count == 1 else f"{count} steps"
                verb = "counts" if count == 1 else "count"
                sentences.append(f"Only {steps} of {label} {verb}.")
            if run.step_time and run.step_time.noise > NOISY:
                stray = format_percent(run.step_time.noise)
                sentences.append(
                    f"Half of the steps of {label} stray by more than {stray}: the machine may "
                    "have had other work."
                )
            if run.counted.repeated:
                sentences.append(
                    f"{label} repeated {run.counted.repeated} steps after a restart; the last "
                    "attempts count."
                )
    mixed = any(item.of == "mixed" for item in measures)
    if mixed or any(item.name == "throughput" and not item.of for item in measures):
        sentences.append("The runs tell memory or throughput in other terms; those do not compare.")
    return list(dict.fromkeys(sentences))
