"""How long each rank stood still for the others in each step: ranks down, steps across.

Waiting is gather_wait + reduce_wait of the rank itself. The rank that waits least is the one that
the others wait for; where a whole column is dark, the link was slow and not a rank.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from probe.analyse.steps.steps import Integers, last_attempts
from probe.schema.vocabulary import Phase

WAITS = (Phase.GATHER_WAIT, Phase.REDUCE_WAIT)
RANK_WAITS_COLUMNS = ("rank", "step", *(f"{phase.value}_ns" for phase in WAITS))
"""Columns of the steps table that `rank_waits` reads."""


@dataclass(frozen=True, kw_only=True, eq=False)
class RankWaits:
    """A matrix with a row a rank and a column a recorded step."""

    ranks: Integers
    step: Integers
    waited_ns: npt.NDArray[np.float64]
    """nan where a rank did not record the step."""


def rank_waits(steps: pa.Table) -> RankWaits | None:
    """None for a single rank, or if nobody ever waited."""
    rows, _ = last_attempts(steps)
    ranks, rank_at = np.unique(rows["rank"].to_numpy(), return_inverse=True)
    numbers, step_at = np.unique(rows["step"].to_numpy(), return_inverse=True)
    waited = np.sum([rows[f"{phase.value}_ns"].to_numpy() for phase in WAITS], axis=0)
    if len(ranks) < 2 or not waited.any():
        return None
    matrix = np.full((len(ranks), len(numbers)), np.nan)
    matrix[rank_at, step_at] = waited
    return RankWaits(ranks=ranks.astype(np.int64), step=numbers.astype(np.int64), waited_ns=matrix)
