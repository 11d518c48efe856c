"""The race: contestants take turns A B C, C B A, ... on an otherwise quiet machine.

Each is warmed up first. Then every round gives each a turn of a few measured steps, so that a
machine that slows down slows all of them, and figures are compared within a round. A turn's first
step is not measured: it pays for caches that the others have filled.
"""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.machine import BusyClock
from benchmarks.setting import Setting
from benchmarks.team import Team
from benchmarks.worker import Memory, Turn

Progress = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How long to race."""

    warmup_steps: int = 5
    rounds: int = 8
    turn_steps: int = 5
    """Measured steps per contestant and round."""


@dataclass(frozen=True, kw_only=True)
class Record:
    """Everything measured of one contestant in one setting."""

    contestant: str
    rounds_ns: tuple[tuple[int, ...], ...]
    """Step times, grouped by round. A step ends when its last rank has ended it."""
    cpu_rounds_ns: tuple[tuple[int, ...], ...]
    """Processor time of a step, of the rank that used most; a busy machine hardly changes it."""
    losses: tuple[float, ...]
    """Mean over ranks, from the very first step on."""
    parts_ns: dict[str, tuple[int, ...]]
    """Per measured step: compute and update by the slowest rank, collectives by the fastest."""
    base_bytes: int
    peak_bytes: int
    """Largest over ranks."""


@dataclass(frozen=True, kw_only=True)
class Race:
    """What came of one race."""

    setting: Setting
    plan: Plan
    records: dict[str, Record]
    others_share: float
    """How much of the machine went to processes that were not racing, while the race was on."""


def race(contestants: Sequence[str], setting: Setting, plan: Plan, progress: Progress) -> Race:
    """Run the contestants against each other in one setting."""
    with TemporaryDirectory(prefix="race_") as folder, ExitStack() as stack:
        teams: dict[str, Team] = {}
        for name in contestants:
            progress(f"starting {name}")
            team = Team(contestant=name, setting=setting, folder=Path(folder))
            teams[name] = stack.enter_context(team)
        turns: dict[str, list[list[Turn]]] = {name: [] for name in contestants}
        for name, team in teams.items():
            progress(f"warming up {name}")
            turns[name].append(team.take_turn(plan.warmup_steps))
            team.settle()
        order = list(contestants)
        clock = BusyClock()
        for number in range(plan.rounds):
            for name in order:
                progress(f"round {number + 1} of {plan.rounds}: {name}")
                turns[name].append(teams[name].take_turn(1 + plan.turn_steps))
            order.reverse()
        others_share = clock.others_share()
        return Race(
            setting=setting,
            plan=plan,
            records={
                name: gather_record(name, turns[name], teams[name].finish()) for name in teams
            },
            others_share=others_share,
        )


def gather_record(contestant: str, turns: list[list[Turn]], memory: list[Memory]) -> Record:
    """Fold what the ranks saw into one record; the first of the turns is the warm-up."""
    warmup, *measured = turns
    parts: dict[str, list[int]] = {}
    for turn in measured:
        for by_rank in zip(*(rank.parts_ns[1:] for rank in turn), strict=True):
            for part in by_rank[0]:
                over_ranks = min if part in ("reduce", "gather") else max
                parts.setdefault(part, []).append(over_ranks(rank[part] for rank in by_rank))
    return Record(
        contestant=contestant,
        rounds_ns=tuple(_step_times_ns(turn) for turn in measured),
        cpu_rounds_ns=tuple(_cpu_times_ns(turn) for turn in measured),
        losses=tuple(loss for turn in (warmup, *measured) for loss in mean_losses(turn)),
        parts_ns={part: tuple(times) for part, times in parts.items()},
        base_bytes=max(rank.base_bytes for rank in memory),
        peak_bytes=max(rank.peak_bytes for rank in memory),
    )


def _step_times_ns(turn: list[Turn]) -> tuple[int, ...]:
    ends = [max(by_rank) for by_rank in zip(*(rank.end_ns for rank in turn), strict=True)]
    return tuple(after - before for before, after in pairwise(ends))


def _cpu_times_ns(turn: list[Turn]) -> tuple[int, ...]:
    by_rank = ([after - before for before, after in pairwise(rank.cpu_ns)] for rank in turn)
    return tuple(max(step) for step in zip(*by_rank, strict=True))


def mean_losses(turn: list[Turn]) -> list[float]:
    """Return the loss of each step, averaged over ranks."""
    by_step = zip(*(rank.losses for rank in turn), strict=True)
    return [sum(by_rank) / len(by_rank) for by_rank in by_step]
