"""How evenly the ranks work: their own time, their time in collectives, their load, by rank.

A rank's own time is data + forward + backward: the phases in which it waits for nobody. Which rank
holds the others up, and why, is `straggler`'s to say.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from probe.analyse.statistics.dependence import Floats
from probe.analyse.statistics.standard_error import error_of_mean
from probe.analyse.steps.repeated import last_rows
from probe.analyse.steps.steps import CountedSteps, Integers, last_attempts
from probe.analyse.steps.straggler import RankTimes, Straggler, find_straggler
from probe.schema.vocabulary import Phase

OWN_PHASES = (Phase.DATA, Phase.FORWARD, Phase.BACKWARD)
BALANCE_COLUMNS = (
    "rank",
    "step",
    "wall_ns",
    "samples",
    "tokens",
    *(f"{phase.value}_ns" for phase in OWN_PHASES),
)
"""Columns of the steps table that `rank_balance` reads."""


@dataclass(frozen=True, kw_only=True)
class RankBalance:
    """Medians over the counted steps, by rank."""

    own_ns: Mapping[int, float]
    """data + forward + backward."""
    data_ns: Mapping[int, float]
    busy_ns: Mapping[int, float]
    """In collectives; empty without communication."""
    load: Mapping[int, float]
    """Mean tokens of a step, or samples where tokens are not told; empty if neither is."""
    load_unit: str
    """tokens or samples."""
    load_error: float | None
    """Standard error of `load_excess`: lengths that vary make one rank's mean the largest."""
    straggler: Straggler | None

    @property
    def load_excess(self) -> float | None:
        """Load of the most loaded rank over the mean of all, minus one."""
        if not self.load:
            return None
        mean = float(np.mean(list(self.load.values())))
        return max(self.load.values()) / mean - 1 if mean else None


def rank_balance(steps: pa.Table, comm: pa.Table, counted: CountedSteps) -> RankBalance | None:
    """None for a single rank, or if no step counts."""
    rows, _ = last_attempts(steps)
    rows = rows.filter(pc.is_in(rows["step"], value_set=pa.array(counted.step)))
    grid = _Grid.of(rows, counted)
    if len(grid.rank) < 2:
        return None
    data_ns, wall_ns = grid.of_rows(rows["data_ns"]), grid.of_rows(rows["wall_ns"])
    own_ns = data_ns + sum(grid.of_rows(rows[f"{phase.value}_ns"]) for phase in OWN_PHASES[1:])
    busy_ns, exposed_ns = _in_collectives(comm, counted, grid)
    unit = "tokens" if not rows["tokens"].null_count else "samples"
    load = None if rows[unit].null_count else grid.of_rows(rows[unit])
    times = RankTimes(
        rank=grid.rank,
        own_ns=own_ns,
        data_ns=data_ns,
        worked_ns=wall_ns - exposed_ns,
        busy_ns=busy_ns,
    )
    return RankBalance(
        own_ns=grid.by_rank(np.nanmedian(own_ns, axis=0)),
        data_ns=grid.by_rank(np.nanmedian(data_ns, axis=0)),
        busy_ns=grid.by_rank(np.nanmedian(busy_ns, axis=0)) if comm.num_rows else {},
        load={} if load is None else grid.by_rank(np.nanmean(load, axis=0)),
        load_unit=unit,
        load_error=None if load is None else _load_error(load),
        straggler=find_straggler(times, float(np.median(counted.wall_ns))),
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class _Grid:
    """Where rows of the counted steps belong: steps down, ranks across."""

    step: Integers
    rank: Integers
    step_at: Integers
    rank_at: Integers

    @staticmethod
    def of(rows: pa.Table, counted: CountedSteps) -> "_Grid":
        rank, rank_at = np.unique(rows["rank"].to_numpy(), return_inverse=True)
        step_at = np.searchsorted(counted.step, rows["step"].to_numpy())
        return _Grid(step=counted.step, rank=rank, step_at=step_at, rank_at=rank_at)

    def of_rows(self, values: pa.ChunkedArray) -> Floats:
        """A column of the rows; nan where a rank did not record a step."""
        spread = np.full((len(self.step), len(self.rank)), np.nan)
        spread[self.step_at, self.rank_at] = values.to_numpy()
        return spread

    def by_rank(self, values: Floats) -> dict[int, float]:
        return {int(rank): float(value) for rank, value in zip(self.rank, values, strict=True)}


def _in_collectives(comm: pa.Table, counted: CountedSteps, grid: _Grid) -> tuple[Floats, Floats]:
    """Busy and exposed time; a step without collectives spent none."""
    if counted.repeated:
        comm = last_rows(comm, ["rank", "step", "phase", "op", "wire_op", "group", "dtype"])
    by_rank = comm.group_by(["rank", "step"]).aggregate([("busy_ns", "sum"), ("exposed_ns", "sum")])
    wanted = pc.and_(
        pc.is_in(by_rank["step"], value_set=pa.array(grid.step)),
        pc.is_in(by_rank["rank"], value_set=pa.array(grid.rank)),
    )
    by_rank = by_rank.filter(wanted)
    step_at = np.searchsorted(grid.step, by_rank["step"].to_numpy())
    rank_at = np.searchsorted(grid.rank, by_rank["rank"].to_numpy())

    def sums(name: str) -> Floats:
        spread = np.zeros((len(grid.step), len(grid.rank)))
        spread[step_at, rank_at] = by_rank[f"{name}_sum"].to_numpy()
        return spread

    return sums("busy_ns"), sums("exposed_ns")


def _load_error(load: Floats) -> float:
    most = int(np.nanmean(load, axis=0).argmax())
    means = np.nanmean(load, axis=1)
    beyond = load[:, most] - means
    mean = float(np.mean(means))
    return error_of_mean(beyond[~np.isnan(beyond)]) / mean if mean else 0.0
