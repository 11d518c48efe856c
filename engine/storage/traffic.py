"""What moved between the device and where shards rest, added up over a step.

Transfers end in threads of their own, so the sums are guarded. A transfer counts in the step in
which it ends. Where host and device are the same memory nothing is copied: bytes are counted, and
their time is zero.
"""

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from time import monotonic_ns
from types import TracebackType

from engine.facts import OffloadFacts
from engine.tracing import PhaseClock, covered_ns
from probe.schema.vocabulary import Direction, MemoryCategory, Phase, Tier

Sizes = Mapping[MemoryCategory, int]
"""Bytes of each category in one transfer."""


@dataclass(kw_only=True)
class _Route:
    """All transfers of one category in one direction in the step under way."""

    transfers: int = 0
    moved_bytes: int = 0
    intervals: list[tuple[int, int]] = field(default_factory=list)
    exposed_ns: int = 0
    queue_depth: int = 0


class Traffic:
    """The transfers of one rank."""

    def __init__(self, clock: PhaseClock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._routes: dict[tuple[Tier, Direction, MemoryCategory], _Route] = {}

    def moved(
        self,
        tier: Tier,
        direction: Direction,
        sizes: Sizes,
        *,
        began_ns: int = 0,
        ended_ns: int = 0,
        queue_depth: int = 1,
    ) -> None:
        """One transfer is over; its time is dealt to its categories as they lie in it."""
        total = sum(sizes.values())
        at = 0
        with self._lock:
            for category, size in sizes.items():
                route = self._route(tier, direction, category)
                route.transfers += 1
                route.moved_bytes += size
                route.queue_depth = max(route.queue_depth, queue_depth)
                if ended_ns > began_ns:
                    spent_ns = ended_ns - began_ns
                    route.intervals.append(
                        (
                            began_ns + spent_ns * at // total,
                            began_ns + spent_ns * (at + size) // total,
                        )
                    )
                at += size

    def waiting(self, tier: Tier, direction: Direction, sizes: Sizes) -> "Wait":
        """While this is entered the computing thread stands still for a transfer."""
        return Wait(self, self._clock, tier, direction, sizes)

    def take(self) -> tuple[OffloadFacts, ...]:
        """What ended since the last call."""
        with self._lock:
            taken, self._routes = self._routes, {}
        return tuple(
            OffloadFacts(
                tier=tier,
                direction=direction,
                category=category,
                transfers=route.transfers,
                moved_bytes=route.moved_bytes,
                busy_ns=covered_ns(route.intervals),
                exposed_ns=route.exposed_ns,
                queue_depth=route.queue_depth,
            )
            for (tier, direction, category), route in taken.items()
        )

    def stood_still(self, tier: Tier, direction: Direction, sizes: Sizes, exposed_ns: int) -> None:
        """The computing thread stood still for so long."""
        total = sum(sizes.values())
        dealt_ns = at = 0
        with self._lock:
            for category, size in sizes.items():
                at += size
                upto_ns = exposed_ns * at // total
                self._route(tier, direction, category).exposed_ns += upto_ns - dealt_ns
                dealt_ns = upto_ns

    def _route(self, tier: Tier, direction: Direction, category: MemoryCategory) -> _Route:
        key = tier, direction, category
        if key not in self._routes:
            self._routes[key] = _Route()
        return self._routes[key]


class Wait:
    """One stretch of standing still, in the phase that has its name."""

    def __init__(
        self,
        traffic: Traffic,
        clock: PhaseClock,
        tier: Tier,
        direction: Direction,
        sizes: Sizes,
    ) -> None:
        self._traffic = traffic
        self._phase = clock.phase(Phase.OFFLOAD_WAIT)
        self._of = tier, direction, sizes
        self._began_ns = 0

    def __enter__(self) -> None:
        self._phase.__enter__()
        self._began_ns = monotonic_ns()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._traffic.stood_still(*self._of, monotonic_ns() - self._began_ns)
        self._phase.__exit__(kind, error, trace)
