"""Ranks that no longer move: who waits for whom, in which collective.

A rank's heartbeat changes only when the rank has moved, and says where it stands. So a heartbeat
that stays the same for long is a rank that stands still; what the ranks entered last tells which of
them the others wait for. Only this process's own clock is used. The engine itself ends ranks that
can never meet again, within seconds; what is told here is what may still go on, or never will.
"""

import time
from collections.abc import Callable, Mapping
from pathlib import Path

from probe.read.documents import read_heartbeat
from probe.read.inside import rank_folders
from probe.schema.documents import Hang, Heartbeat
from probe.schema.vocabulary import RankState

FOLLOWING_S = 1.0
"""How much later than the rank that stands others may have come to wait for it."""


class HangWatch:
    """Follows the heartbeats of a run."""

    def __init__(
        self,
        run_dir: Path,
        timeout_s: float,
        *,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._run_dir = run_dir
        self._timeout_s = timeout_s
        self._now_s = now_s
        self._seen: dict[int, tuple[Heartbeat, float]] = {}
        self._told = False

    def look(self) -> Hang | None:
        """A hang that was not told of before; once until every rank moves again."""
        now_s = self._now_s()
        try:
            ranks, _ = rank_folders(self._run_dir)
        except OSError:
            return None  # The directory was taken away; the run goes on without us.
        for rank in ranks:
            heartbeat, _, _ = read_heartbeat(self._run_dir, rank)
            if heartbeat is None:
                continue
            before = self._seen.get(rank)
            if before is None or before[0] != heartbeat:
                self._seen[rank] = (heartbeat, now_s)
        alive = {
            rank: seen for rank, seen in self._seen.items() if seen[0].state is RankState.ALIVE
        }
        stood_s = {rank: now_s - since_s for rank, (_, since_s) in alive.items()}
        if max(stood_s.values(), default=0.0) <= self._timeout_s:
            self._told = False
            return None
        # Those that wait for a rank came to a stand a moment after it: they belong to its hang.
        still_s = {
            rank: stood for rank, stood in stood_s.items() if stood > self._timeout_s - FOLLOWING_S
        }
        if self._told:
            return None
        self._told = True
        return describe_hang({rank: heartbeat for rank, (heartbeat, _) in alive.items()}, still_s)


def describe_hang(heartbeats: Mapping[int, Heartbeat], still_s: Mapping[int, float]) -> Hang:
    """Who waits for whom, from where each rank stands; `still_s` holds those that do not move."""
    waiting = {
        rank: heartbeat.collective.sequence
        for rank, heartbeat in heartbeats.items()
        if rank in still_s and heartbeat.collective is not None and not heartbeat.collective.done
    }
    furthest = max(waiting.values(), default=0)
    awaited = [
        rank
        for rank, heartbeat in heartbeats.items()
        if rank not in waiting
        and (heartbeat.collective is None or heartbeat.collective.sequence < furthest)
    ]
    if waiting and not awaited:
        # All have entered as many: those behind, or not waiting at all, hold the others up.
        awaited = [rank for rank in heartbeats if waiting.get(rank, -1) < furthest]
    longest_s = max(still_s.values())
    steps = [heartbeats[rank].step for rank in still_s]
    parts = [f"no move for {longest_s:.0f} s"]
    parts += [f"rank {rank} waits in {_where(heartbeats[rank])}" for rank in sorted(waiting)]
    idle = sorted(set(still_s) - set(waiting) | set(awaited))
    word = "waited for: " if waiting else ""
    parts += [f"{word}rank {rank}, {_stands(heartbeats[rank])}" for rank in idle]
    return Hang(
        time_ns=time.time_ns(),
        step=max((step for step in steps if step is not None), default=None),
        waiting=sorted(waiting),
        awaited=sorted(awaited),
        still_s=longest_s,
        message="; ".join(parts),
    )


def _where(heartbeat: Heartbeat) -> str:
    """The collective that a rank entered last, in the words of the engine's own lookout."""
    collective = heartbeat.collective
    assert collective is not None, "asked of ranks in a collective"
    return f"{collective.op} of {collective.block} (number {collective.sequence}{_step(heartbeat)})"


def _stands(heartbeat: Heartbeat) -> str:
    phase = f"in {heartbeat.phase}" if heartbeat.phase else "before its first step"
    last = f", last entered {_where(heartbeat)}" if heartbeat.collective else ""
    return f"{phase}{_step(heartbeat) if not last else ''}{last}"


def _step(heartbeat: Heartbeat) -> str:
    return "" if heartbeat.step is None else f", step {heartbeat.step}"
