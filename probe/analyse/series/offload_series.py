"""What each step moved between device, host and disk, mean over the ranks that moved anything."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from probe.analyse.steps.repeated import last_rows
from probe.analyse.steps.steps import Integers

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


def offload_series(offload: pa.Table) -> OffloadSeries | None:
    """None without a transfer."""
    if not offload.num_rows:
        return None
    rows = last_rows(offload, ["rank", "step", "tier", "direction", "category"])
    ranks = len(pc.unique(rows["rank"]))
    steps, at = np.unique(rows["step"].to_numpy(), return_inverse=True)
    routes = rows.group_by(["tier", "direction"]).aggregate([]).to_pylist()
    moved = {}
    for route in sorted(routes, key=lambda route: (route["tier"], route["direction"])):
        chosen = pc.and_(
            pc.equal(rows["tier"], route["tier"]), pc.equal(rows["direction"], route["direction"])
        ).to_numpy()
        total = np.zeros(len(steps))
        np.add.at(total, at[chosen], rows["moved_bytes"].to_numpy()[chosen])
        moved[route["tier"], route["direction"]] = total / ranks
    exposed = np.zeros(len(steps))
    np.add.at(exposed, at, rows["exposed_ns"].to_numpy())
    return OffloadSeries(step=steps.astype(np.int64), moved_bytes=moved, exposed_ns=exposed / ranks)
