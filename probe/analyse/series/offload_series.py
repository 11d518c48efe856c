"""What each step moved between device, host and disk, mean over the ranks that moved anything."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from probe.analyse.steps.repeated import last_rows
from probe.analyse.steps.steps import CountedSteps, Integers

OFFLOAD_SERIES_COLUMNS = (
    "rank",
    "step",
    "tier",
    "direction",
    "category",
    "moved_bytes",
    "exposed_ns",
)
"""Columns of the offload table that `offload_series` reads."""


@dataclass(frozen=True, kw_only=True, eq=False)
class OffloadSeries:
    """One entry a step with transfers in every array."""

    step: Integers
    moved_bytes: Mapping[tuple[str, str], npt.NDArray[np.float64]]
    """By tier and direction."""
    exposed_ns: npt.NDArray[np.float64]


def offload_series(offload: pa.Table, counted: CountedSteps) -> OffloadSeries | None:
    """None without a transfer."""
    if not offload.num_rows:
        return None
    ranks = len(pc.unique(offload["rank"]))
    if counted.repeated:
        offload = last_rows(offload, ["rank", "step", "tier", "direction", "category"])
    by_step = offload.group_by(["tier", "direction", "step"]).aggregate(
        [("moved_bytes", "sum"), ("exposed_ns", "sum")]
    )
    frame = by_step.to_pandas()
    steps, at = np.unique(frame["step"].to_numpy(), return_inverse=True)

    def spread(column: str, chosen: npt.NDArray[np.intp]) -> npt.NDArray[np.float64]:
        total = np.zeros(len(steps))
        np.add.at(total, at[chosen], frame[column].to_numpy()[chosen])
        return total / ranks

    routes = frame.groupby(["tier", "direction"], sort=False, observed=True).indices
    return OffloadSeries(
        step=steps.astype(np.int64),
        moved_bytes={
            route: spread("moved_bytes_sum", chosen) for route, chosen in sorted(routes.items())
        },
        exposed_ns=spread("exposed_ns_sum", np.arange(len(frame))),
    )
