"""What offload moved in the steps that count: bytes, bandwidth, and how much compute stood still.

Figures a step are means over ranks and counted steps. Bandwidth is bytes over busy time, the time
with at least one such transfer under way. What is not exposed was hidden under compute.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from probe.analyse.steps.steps import CountedSteps
from probe.analyse.steps.traffic_by_kind import traffic_by_kind

OFFLOAD_COLUMNS = (
    "rank",
    "step",
    "tier",
    "direction",
    "category",
    "transfers",
    "moved_bytes",
    "busy_ns",
    "exposed_ns",
    "queue_depth",
)
"""Columns of the offload table that `offload_traffic` reads."""


@dataclass(frozen=True, kw_only=True)
class Route:
    """One category in one direction between the device and a tier."""

    tier: str
    direction: str
    category: str
    transfers: float
    moved_bytes: float
    busy_ns: float
    exposed_ns: float
    exposed_error_ns: float
    """Standard error of the exposed time, over steps."""
    queue_depth: int | None
    """Most transfers under way at once."""

    @property
    def bytes_per_s(self) -> float | None:
        """Bytes over busy time; None if no time was taken."""
        return self.moved_bytes / self.busy_ns * 1e9 if self.busy_ns else None


@dataclass(frozen=True, kw_only=True)
class OffloadTraffic:
    """All transfers of a usual step of one rank."""

    routes: tuple[Route, ...]
    """Most exposed time first."""
    moved_bytes: float
    busy_ns: float
    exposed_ns: float
    exposed_step_share: float | None
    """Exposed time over the wall time of the counted steps."""

    @property
    def hidden_share(self) -> float | None:
        """Busy time that was hidden under compute, over busy time."""
        return 1 - self.exposed_ns / self.busy_ns if self.busy_ns else None


def offload_traffic(offload: pa.Table, counted: CountedSteps) -> OffloadTraffic | None:
    """None without a transfer in a step that counts."""
    found = traffic_by_kind(
        offload,
        counted,
        keys=["tier", "direction", "category"],
        means=["transfers", "moved_bytes", "busy_ns", "exposed_ns"],
        most=["queue_depth"],
    )
    if not found:
        return None
    routes = [Route(**item) for item in found]
    routes.sort(key=lambda route: (-route.exposed_ns, route.category, route.direction))
    exposed_ns = sum(route.exposed_ns for route in routes)
    wall_ns = float(np.mean(counted.wall_ns))
    return OffloadTraffic(
        routes=tuple(routes),
        moved_bytes=sum(route.moved_bytes for route in routes),
        busy_ns=sum(route.busy_ns for route in routes),
        exposed_ns=exposed_ns,
        exposed_step_share=exposed_ns / wall_ns if wall_ns else None,
    )
