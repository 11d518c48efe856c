"""How evenly the ranks work, and which one holds the others up, and why.

All ranks of a synchronous job take equally long for a step; what differs is what they do meanwhile.
A rank's own time is its median over the counted steps of data + forward + backward: the phases in
which it waits for nobody. A rank is a straggler if its own time, or its time in collectives, stands
out from the median of the others by more than 10 % of that median and 2 % of the step:

    slow data       its own time stands out, and most of it is waiting for the next batch
    slow compute    its own time stands out, and the others wait in collectives meanwhile
    slow link       nobody's own time stands out, but this rank's collectives take longest
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from probe.analyse.steps.repeated import last_rows
from probe.analyse.steps.steps import CountedSteps, last_attempts
from probe.schema.vocabulary import Phase

OWN_PHASES = (Phase.DATA, Phase.FORWARD, Phase.BACKWARD)
LEAST_EXCESS = 0.10
LEAST_STEP_SHARE = 0.02
BALANCE_COLUMNS = (
    "rank",
    "step",
    "samples",
    "tokens",
    *(f"{phase.value}_ns" for phase in OWN_PHASES),
)
"""Columns of the steps table that `rank_balance` reads."""


class Cause(StrEnum):
    """Why a rank holds the others up."""

    SLOW_DATA = "slow data"
    SLOW_COMPUTE = "slow compute"
    SLOW_LINK = "slow link"


@dataclass(frozen=True, kw_only=True)
class Straggler:
    """The rank that the others wait for."""

    rank: int
    cause: Cause
    excess_ns: float
    """Time a step beyond the median rank."""
    step_share: float
    """The same over the median step."""


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
    chosen = pa.array(counted.step)
    rows = rows.filter(pc.is_in(rows["step"], value_set=chosen))
    data = _by_rank(rows["rank"], rows["data_ns"])
    if len(data) < 2:
        return None
    own = rows["data_ns"]
    for phase in OWN_PHASES[1:]:
        own = pc.add(own, rows[f"{phase.value}_ns"])
    own_ns = _by_rank(rows["rank"], own)
    busy_ns = _busy(comm, counted)
    unit = "tokens" if not rows["tokens"].null_count else "samples"
    load = {} if rows[unit].null_count else _means(rows["rank"], rows[unit])
    step_ns = float(np.median(counted.wall_ns))
    return RankBalance(
        own_ns=own_ns,
        data_ns=data,
        busy_ns=busy_ns,
        load=load,
        load_unit=unit,
        straggler=_straggler(own_ns, data, busy_ns, step_ns),
    )


def _straggler(
    own: Mapping[int, float], data: Mapping[int, float], busy: Mapping[int, float], step_ns: float
) -> Straggler | None:
    if outlier := _standing_out(own, step_ns):
        rank, excess_ns = outlier
        waiting_ns = data[rank] - _of_others(data, rank)
        cause = Cause.SLOW_DATA if waiting_ns > excess_ns / 2 else Cause.SLOW_COMPUTE
    elif outlier := _standing_out(busy, step_ns):
        rank, excess_ns = outlier
        cause = Cause.SLOW_LINK
    else:
        return None
    return Straggler(rank=rank, cause=cause, excess_ns=excess_ns, step_share=excess_ns / step_ns)


def _standing_out(times: Mapping[int, float], step_ns: float) -> tuple[int, float] | None:
    """The rank that takes longest and by how much, if that is far beyond the usual rank."""
    if len(times) < 2 or not step_ns:
        return None
    rank = max(times, key=lambda rank: times[rank])
    usual = _of_others(times, rank)
    excess = times[rank] - usual
    stands_out = excess > LEAST_EXCESS * usual and excess > LEAST_STEP_SHARE * step_ns
    return (rank, excess) if stands_out else None


def _of_others(times: Mapping[int, float], rank: int) -> float:
    """The median of the other ranks: one that took part itself would hide half of two."""
    return float(np.median([time for other, time in times.items() if other != rank]))


def _busy(comm: pa.Table, counted: CountedSteps) -> dict[int, float]:
    if counted.repeated:
        comm = last_rows(comm, ["rank", "step", "phase", "op", "wire_op", "group", "dtype"])
    # Texts are what makes filtering rows dear, and none is needed here.
    rows = comm.select(["rank", "step", "busy_ns"])
    rows = rows.filter(pc.is_in(rows["step"], value_set=pa.array(counted.step)))
    by_step = rows.group_by(["rank", "step"]).aggregate([("busy_ns", "sum")])
    return _by_rank(by_step["rank"], by_step["busy_ns_sum"])


def _by_rank(ranks: pa.ChunkedArray, values: pa.ChunkedArray) -> dict[int, float]:
    """The median of each rank."""
    rank, value = ranks.to_numpy(), values.to_numpy()
    return {int(each): float(np.median(value[rank == each])) for each in np.unique(rank)}


def _means(ranks: pa.ChunkedArray, values: pa.ChunkedArray) -> dict[int, float]:
    rank, value = ranks.to_numpy(), values.to_numpy()
    return {int(each): float(np.mean(value[rank == each])) for each in np.unique(rank)}
