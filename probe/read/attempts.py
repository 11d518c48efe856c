"""Steps that a rank did again after a restart: one rule for whoever reads rows.

A restart goes on from a checkpoint, so what was done from the first step of a later attempt on was
taken back. The steps themselves say where an attempt began; rows of all tables that belong to a
step follow them. Events happened, and all of them count.
"""

from collections.abc import Iterable, Mapping

import numpy as np
import pyarrow as pa

from probe.read.columns import RANK
from probe.read.problem import Problem
from probe.schema.layout import rank_dir
from probe.schema.tables import STEPS, Table
from probe.schema.vocabulary import Severity

STEP = "step"
ATTEMPT = "attempt"
RULED_BY = (RANK, STEP, ATTEMPT)
"""The columns that the rule needs."""

Begins = Mapping[tuple[int, int], int]
"""The first step that was recorded, by rank and attempt."""


def has_step(table: Table) -> bool:
    """Whether each row of a table belongs to a step."""
    return any(column.name == STEP and not column.optional for column in table.fields)


def begins_of(steps: pa.Table) -> dict[tuple[int, int], int]:
    """Where each attempt in these rows of `steps` began."""
    found = steps.group_by([RANK, ATTEMPT]).aggregate([(STEP, "min")])
    return {(row[RANK], row[ATTEMPT]): row[f"{STEP}_min"] for row in found.to_pylist()}


def restarted_ranks(rows: pa.Table) -> set[int]:
    """Ranks that have rows from after a restart."""
    attempts = rows[ATTEMPT].to_numpy()
    if not attempts.any():
        return set()
    return set(rows[RANK].to_numpy()[attempts > 0].tolist())


def counted(rows: pa.Table, begins: Begins) -> pa.Table:
    """The rows that no later attempt took back."""
    if not any(attempt for _, attempt in begins) or not rows.num_rows:
        return rows
    pairs = np.stack([rows[RANK].to_numpy().astype(np.int64), rows[ATTEMPT].to_numpy()])
    unique, place = np.unique(pairs, axis=1, return_inverse=True)
    ends = _ends(begins)
    until = [_end_of(ends, rank, attempt) for rank, attempt in unique.T.tolist()]
    keep = rows[STEP].to_numpy() < np.array(until, np.int64)[place.reshape(-1)]
    return rows if keep.all() else rows.filter(pa.array(keep))


def taken_back(rows: pa.Table, left: pa.Table) -> list[Problem]:
    """A word on the steps that do not count, for the ranks that have some."""
    lost = rows.num_rows - left.num_rows
    if not lost:
        return []
    before, after = _rows_by_rank(rows), _rows_by_rank(left)
    ranks = [rank for rank in before if before[rank] != after.get(rank)]
    more = f", on {len(ranks)} ranks together," if len(ranks) > 1 else ""
    return [
        Problem(
            severity=Severity.INFO,
            file=f"{rank_dir(ranks[0])}/{STEPS.file_name}",
            what=f"holds {lost} rows{more} of steps that a restart took back",
            hint="The later attempt counts; the rows of the earlier one stay in the file.",
        )
    ]


def _ends(begins: Begins) -> dict[int, list[tuple[int, int]]]:
    """By rank: attempts, the last first, and the lowest step that it or a later one began with."""
    ends: dict[int, list[tuple[int, int]]] = {}
    for (rank, attempt), step in sorted(begins.items(), reverse=True):
        known = ends.setdefault(rank, [])
        known.append((attempt, min(step, known[-1][1]) if known else step))
    return ends


def _end_of(ends: Mapping[int, Iterable[tuple[int, int]]], rank: int, attempt: int) -> int:
    """The step from which on an attempt was taken back."""
    end = np.iinfo(np.int64).max
    for later, step in ends.get(rank, ()):
        if later <= attempt:
            break
        end = step
    return int(end)


def _rows_by_rank(rows: pa.Table) -> dict[int, int]:
    ranks, numbers = np.unique(rows[RANK].to_numpy(), return_counts=True)
    return dict(zip(ranks.tolist(), numbers.tolist(), strict=True))
