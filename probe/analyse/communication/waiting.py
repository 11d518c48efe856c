"""Waiting for peers told apart from moving bytes, in the collectives that were timed one by one.

A collective is the same on all ranks of its group if group and sequence number agree. Each rank's
duration runs from the moment at which it began to wait to the end; what was hidden under its own
work is not in it. The shortest of these durations is the transfer: the rank that came last found
everyone waiting. What a rank spent beyond it is waiting. The rank that waits least, all together,
is the one that others wait for.

A collective counts if every rank that timed any in that group and step timed this one; moments of
different ranks are never compared, so clocks need not agree.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from probe.analyse.steps.repeated import last_rows
from probe.analyse.steps.steps import CountedSteps

CALL_COLUMNS = ("rank", "step", "sequence", "op", "group", "logical_bytes", "start_ns", "end_ns")
"""Columns of the comm_calls table that `waiting` reads."""


@dataclass(frozen=True, kw_only=True)
class Waiting:
    """The matched collectives of the sampled steps that count."""

    collectives: int
    sampled_steps: int
    transfer_ns: int
    """Sum of the shortest durations: what one rank spent on moving bytes at the least."""
    waited_ns: Mapping[int, int]
    """By rank, over all matched collectives."""
    last_share: Mapping[int, float]
    """By rank: share of the collectives in which it was the one that others waited for."""
    transfer_by_op_ns: Mapping[str, int]

    @property
    def least_waiting_rank(self) -> int:
        """The rank that others wait for."""
        return min(self.waited_ns, key=lambda rank: (self.waited_ns[rank], rank))

    @property
    def waiting_share(self) -> float:
        """Of the time that ranks spent in collectives, the share that was waiting."""
        waited = sum(self.waited_ns.values())
        total = waited + self.transfer_ns * len(self.waited_ns)
        return waited / total if total else 0.0


def waiting(calls: pa.Table, counted: CountedSteps) -> Waiting | None:
    """None unless at least two ranks timed the same collective in a step that counts."""
    rows = calls.filter(pc.is_in(calls["step"], value_set=pa.array(counted.step)))
    if counted.repeated:
        rows = last_rows(rows, ["rank", "step", "group", "sequence"])
    ranks = sorted(pc.unique(rows["rank"]).to_pylist())
    if len(ranks) < 2:
        return None
    groups = rows["group"].combine_chunks().dictionary_encode().indices.to_numpy()
    steps, sequences = rows["step"].to_numpy(), rows["sequence"].to_numpy()
    _, call_at = np.unique(
        np.stack([groups, steps, sequences], axis=1), axis=0, return_inverse=True
    )
    call_at = call_at.reshape(-1)
    rank_at = np.searchsorted(ranks, rows["rank"].to_numpy())
    present = np.bincount(call_at)
    # Within one group and step, the collectives with as many ranks as the fullest are whole.
    _, place_at = np.unique(np.stack([groups, steps], axis=1), axis=0, return_inverse=True)
    place_at = place_at.reshape(-1)
    fullest = np.zeros(place_at.max() + 1, dtype=np.int64)
    np.maximum.at(fullest, place_at, present[call_at])
    whole = (present[call_at] == fullest[place_at]) & (present[call_at] > 1)
    if not whole.any():
        return None

    duration = rows["end_ns"].to_numpy() - rows["start_ns"].to_numpy()
    shortest = np.full(len(present), np.iinfo(np.int64).max)
    np.minimum.at(shortest, call_at[whole], duration[whole])
    waited = duration - shortest[call_at]
    first_row = np.unique(call_at[whole], return_index=True)
    operations = np.array(rows["op"].to_pylist(), dtype=object)[whole][first_row[1]]
    transfers = shortest[first_row[0]]
    came_last = whole & (waited == 0)
    return Waiting(
        collectives=len(first_row[0]),
        sampled_steps=len(np.unique(steps[whole])),
        transfer_ns=int(transfers.sum()),
        waited_ns={
            int(rank): int(waited[whole & (rank_at == at)].sum()) for at, rank in enumerate(ranks)
        },
        last_share={
            int(rank): int(came_last[rank_at == at].sum()) / max(1, int(whole[rank_at == at].sum()))
            for at, rank in enumerate(ranks)
        },
        transfer_by_op_ns={
            str(op): int(transfers[operations == op].sum()) for op in dict.fromkeys(operations)
        },
    )
