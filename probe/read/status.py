"""What became of a run, concluded from all the evidence there is.

The manifest alone decides nothing: a launcher that was killed leaves "running" behind, and a disk
that was full leaves it there after a good end. The ranks' heartbeats tell how they left, when they
last moved and how long their steps take; a process number tells whether a local rank still exists.
"""

import os
import signal
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass

from probe.schema.documents import Hang, Header, Heartbeat, Manifest
from probe.schema.vocabulary import RankState, RunStatus

PATIENCE_S = 30.0
"""Silence that is never called a stall, however short the steps are."""
PATIENCE_STEPS = 3.0
"""Silence in steps that is."""
SETTLING_S = 3.0
"""Time given to a rank between its last heartbeat and the end of its process."""
_WHY = {
    RunStatus.FINISHED: "Every rank ended well.",
    RunStatus.INTERRUPTED: "Someone interrupted it.",
    RunStatus.FAILED: "Its launcher saw it fail.",
    RunStatus.KILLED: "Its launcher saw it killed.",
}
"""What a manifest that states the end means, in words."""


@dataclass(frozen=True, kw_only=True)
class RankEvidence:
    """What is known of one rank."""

    header: Header | None
    heartbeat: Heartbeat | None
    touched_s: float | None
    """When the heartbeat was last written, by the file system's clock."""


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The status of a run and the reason for it, in one sentence."""

    status: RunStatus
    why: str


def conclude_status(
    manifest: Manifest | None,
    ranks: Mapping[int, RankEvidence],
    *,
    now_s: float | None = None,
    host: str | None = None,
) -> Verdict:
    """The status that fits the evidence."""
    now_s = time.time() if now_s is None else now_s
    host = socket.gethostname() if host is None else host
    if manifest is not None:
        if failed := {rank: code for rank, code in manifest.exit_codes.items() if code != 0}:
            return _ended_badly(manifest, failed)
        if manifest.status is not RunStatus.RUNNING:
            why = _WHY.get(manifest.status, "")
            well = manifest.status is RunStatus.FINISHED
            return Verdict(status=manifest.status, why=why if well else _with_hang(why, manifest))
    beats = {rank: item for rank, item in ranks.items() if item.heartbeat is not None}
    if not beats:
        if manifest is None:
            return Verdict(status=RunStatus.UNKNOWN, why="Neither manifest nor heartbeat is there.")
        return Verdict(status=RunStatus.UNKNOWN, why="No rank has left a sign of life yet.")
    failed_ranks = [rank for rank, item in beats.items() if _state(item) is RankState.FAILED]
    if failed_ranks:
        return Verdict(status=RunStatus.FAILED, why=f"Rank {failed_ranks[0]} reported a failure.")
    alive = {rank: item for rank, item in beats.items() if _state(item) is RankState.ALIVE}
    if not alive:
        return Verdict(status=RunStatus.FINISHED, why="Every rank ended on purpose.")
    hang = None if manifest is None else _hang_that_lasts(manifest, alive)
    return _of_the_living(alive, now_s, host, hang)


def _hang_that_lasts(manifest: Manifest, alive: Mapping[int, RankEvidence]) -> Hang | None:
    """The hang that the launcher saw last, if no rank has moved since."""
    if not manifest.hangs:
        return None
    hang = manifest.hangs[-1]
    beats_ns = [item.heartbeat.time_ns for item in alive.values() if item.heartbeat]
    return hang if max(beats_ns, default=0) < hang.time_ns else None


def _state(evidence: RankEvidence) -> RankState | None:
    return evidence.heartbeat.state if evidence.heartbeat else None


def _ended_badly(manifest: Manifest, failed: Mapping[str, int]) -> Verdict:
    # The first to fall takes the others with it: they are sent SIGTERM for its sake.
    rank = next(
        (rank for rank, code in failed.items() if code != -signal.SIGTERM), next(iter(failed))
    )
    code = failed[rank]
    how = f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
    if manifest.status is RunStatus.INTERRUPTED:
        return Verdict(status=RunStatus.INTERRUPTED, why="Someone interrupted it.")
    killed = all(code < 0 for code in failed.values())
    return Verdict(
        status=RunStatus.KILLED if killed else RunStatus.FAILED,
        why=_with_hang(f"Rank {rank} {how}.", manifest),
    )


def _with_hang(why: str, manifest: Manifest) -> str:
    return f"{why} Before, it hung: {manifest.hangs[-1].message}." if manifest.hangs else why


def _of_the_living(
    alive: Mapping[int, RankEvidence], now_s: float, host: str, hang: Hang | None
) -> Verdict:
    """Running, killed or stalled: for ranks whose last word was that they are alive."""
    silences_s = {
        rank: now_s - item.touched_s for rank, item in alive.items() if item.touched_s is not None
    }
    if not silences_s:
        return Verdict(status=RunStatus.UNKNOWN, why="The heartbeats carry no time.")
    for rank, silence_s in silences_s.items():
        if silence_s > SETTLING_S and _is_gone(alive[rank].header, host):
            return Verdict(
                status=RunStatus.KILLED,
                why=f"The process of rank {rank} is gone and did not say goodbye.",
            )
    if hang is not None:
        return Verdict(status=RunStatus.STALLED, why=f"It hangs: {hang.message}.")
    slowest = max(silences_s, key=lambda rank: silences_s[rank])
    heartbeat = alive[slowest].heartbeat
    step_s = (heartbeat.step_wall_ns or 0) / 1e9 if heartbeat else 0.0
    if silences_s[slowest] > max(PATIENCE_S, PATIENCE_STEPS * step_s):
        return Verdict(
            status=RunStatus.STALLED,
            why=f"Rank {slowest} has been silent for {silences_s[slowest]:.0f} s.",
        )
    return Verdict(status=RunStatus.RUNNING, why="All ranks are alive.")


def _is_gone(header: Header | None, host: str) -> bool:
    """Whether a process of this host no longer exists; other hosts cannot be asked."""
    if header is None or header.pid is None or header.pid <= 0 or header.host != host:
        return False
    try:
        os.kill(header.pid, 0)
    except ProcessLookupError:
        return True
    except (PermissionError, OverflowError):
        return False
    return False
