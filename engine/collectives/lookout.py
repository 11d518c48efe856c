"""Who keeps a rank waiting: a slow peer, a lost one, or one that went elsewhere.

Waiting costs nothing extra. Only when a wait lasts longer than `PATIENCE_S` does this rank write to
the rendezvous store what it called lately, and read what its stuck peers wrote. Two ranks that
called different collectives as their n-th prove that they will never meet; a rank that left its
last words (finished, failed) will not come either. Then the group is closed, the wait ends and the
error says which rank and what, in seconds instead of after half an hour.
"""

import json
import sys
import threading
from collections import deque
from collections.abc import Callable
from time import monotonic
from types import TracebackType
from typing import Protocol

from engine.failures import OrderError, PeerLostError
from probe.errors import ProbeError

PATIENCE_S = 2.0
LOOK_EVERY_S = 0.5
LAST_WORDS_WITHIN_S = 2.0
LET_GO_FIRST_S = 1.0
"""The rank that is seen to end first is told of as the one that failed, so those it took with it
let it go first."""
FAILED = "failed with"
REMEMBERED_CALLS = 256
STOPPED = "stopped because"


class Noticeboard(Protocol):
    """The part of torch's rendezvous store that is used here."""

    def set(self, key: str, value: str) -> object:
        """Write."""

    def get(self, key: str) -> bytes:
        """Read; the key exists."""

    def check(self, keys: list[str]) -> bool:
        """Whether all the keys exist."""


class Lookout:
    """Watches the waits of this rank, one daemon thread."""

    def __init__(
        self, *, board: Noticeboard, rank: int, world: int, break_off: Callable[[], None]
    ) -> None:
        self._board = board
        self._rank = rank
        self._peers = [peer for peer in range(world) if peer != rank]
        self._break_off = break_off
        self._calls: deque[tuple[int, str]] = deque(maxlen=REMEMBERED_CALLS)
        self._waiting_since: float | None = None
        self._posted = ""
        self._verdict: ProbeError | None = None
        self._ended = False
        self.activity = "before the first step"
        self._stop = threading.Event()
        self._previous_excepthook = sys.excepthook
        sys.excepthook = self._excepthook
        self._thread = threading.Thread(target=self._watch, name="lookout", daemon=True)
        self._thread.start()

    def called(self, sequence: int, what: str) -> None:
        """This rank's n-th collective, for the case that somebody must be told."""
        self._calls.append((sequence, what))

    def waits(self) -> None:
        """This rank stands still from now on."""
        self._waiting_since = monotonic()

    def goes_on(self) -> None:
        """The wait is over."""
        self._waiting_since = None

    def leave_last_words(self, words: str) -> None:
        """Tell peers why this rank will not come to another collective; the first words stay."""
        if self._ended:
            return
        self._ended = True
        try:
            self._board.set(f"ended/{self._rank}", words)
        except (RuntimeError, OSError):
            return  # The store is gone, and with it whoever could have read them.

    def close(self) -> None:
        """End the watch."""
        self._stop.set()
        self._thread.join(timeout=5)
        sys.excepthook = self._previous_excepthook

    def explain(self, error: RuntimeError, suspect: int | None) -> ProbeError:
        """What a failed wait means: the verdict reached, or what the lost peer said last."""
        if self._verdict is not None:
            return self._verdict
        deadline = monotonic() + LAST_WORDS_WITHIN_S
        heard: dict[int, str] = {}
        while not heard and monotonic() < deadline and not self._stop.wait(0.05):
            heard = self._last_words()
        if any(words.startswith(FAILED) for words in heard.values()):
            self._stop.wait(LET_GO_FIRST_S)
        if heard:
            return self._pass_on(heard)
        whom = "a peer" if suspect is None else f"rank {suspect}"
        return PeerLostError(
            f"{whom} is gone without a word (killed, out of memory, or its machine lost), while"
            f" {self._here()}. Look at the end of its log. The transport said: {str(error)[:300]}"
        )

    def _watch(self) -> None:
        while not self._stop.wait(LOOK_EVERY_S):
            since = self._waiting_since
            if since is None or monotonic() - since < PATIENCE_S or self._verdict is not None:
                continue
            try:
                self._verdict = self._judge()
            except (RuntimeError, OSError):
                continue  # Nothing can be proved without the store; a timeout remains.
            if self._verdict is not None:
                self._break_off()

    def _judge(self) -> ProbeError | None:
        calls = dict(self._calls)
        mine = json.dumps({"activity": self.activity, "calls": list(calls.items())})
        if mine != self._posted:
            self._board.set(f"waiting/{self._rank}", mine)
            self._posted = mine
        for peer in self._peers:
            if self._board.check([f"waiting/{peer}"]):
                post = json.loads(self._board.get(f"waiting/{peer}"))
                for sequence, theirs in post["calls"]:
                    if sequence in calls and calls[sequence] != theirs:
                        return OrderError(
                            f"the ranks went different ways: as collective number {sequence},"
                            f" rank {self._rank} called {calls[sequence]} ({self.activity}) and"
                            f" rank {peer} called {theirs} ({post['activity']}). Every rank must"
                            " run the same blocks in the same order, equally often."
                        )
        heard = self._last_words()
        return self._pass_on(heard) if heard else None

    def _pass_on(self, heard: dict[int, str]) -> ProbeError:
        """The error of a rank whose peers left last words; hearsay counts least."""
        first = {rank: words for rank, words in heard.items() if not words.startswith(STOPPED)}
        said = "; ".join(f"rank {rank} {words}" for rank, words in sorted((first or heard).items()))
        if not first:
            return PeerLostError(f"{said} ({self._here()})")
        return PeerLostError(f"{said}, while {self._here()}. {_REMEDY}")

    def _here(self) -> str:
        what = self._calls[-1][1] if self._calls else "the first collective"
        return f"rank {self._rank} waited in {what} ({self.activity})"

    def _last_words(self) -> dict[int, str]:
        heard = {}
        try:
            for peer in self._peers:
                if self._board.check([f"ended/{peer}"]):
                    heard[peer] = self._board.get(f"ended/{peer}").decode()
        except (RuntimeError, OSError):
            return heard
        return heard

    def _excepthook(
        self, kind: type[BaseException], error: BaseException, trace: TracebackType | None
    ) -> None:
        self.leave_last_words(f"{FAILED} {kind.__name__}: {str(error)[:500]}")
        self._previous_excepthook(kind, error, trace)


_REMEDY = "All ranks need the same number of batches and steps."
