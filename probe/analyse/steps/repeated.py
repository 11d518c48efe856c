"""Rows that a restart wrote again: the last one of each key is the one that stands."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa


def last_rows(rows: pa.Table, keys: Sequence[str]) -> pa.Table:
    """The last row of every combination of keys, in the order in which they stood."""
    numbered = rows.append_column("row", pa.array(np.arange(rows.num_rows)))
    last = numbered.group_by(list(keys)).aggregate([("row", "max")])["row_max"].to_numpy()
    return rows if len(last) == rows.num_rows else rows.take(pa.array(np.sort(last)))
