"""What a usual step moved, by kind: the means of tables with several rows for each rank and step.

They are summed by kind and step in one pass over all rows; what is left is small enough for
everything else.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from probe.analyse.statistics.dependence import Floats
from probe.analyse.statistics.standard_error import error_of_mean
from probe.analyse.steps.repeated import last_rows
from probe.analyse.steps.steps import CountedSteps


def traffic_by_kind(
    rows: pa.Table,
    counted: CountedSteps,
    *,
    keys: Sequence[str],
    rows_differ_by: Sequence[str] = (),
    means: Sequence[str],
    most: Sequence[str] = (),
) -> list[dict[str, Any]]:
    """For rows that share the keys, each in a step that counts: the keys themselves, means over
    counted steps and ranks (a rank or a step without such a row counts with zero), the largest
    value of a single row, and as `exposed_error_ns` how sure the mean exposed time is.

    Of repeated rows, which agree in rank, step, keys and `rows_differ_by`, the last one stands.
    """
    ranks = len(pc.unique(rows["rank"]))
    if counted.repeated:
        rows = last_rows(rows, ["rank", "step", *keys, *rows_differ_by])
    by_step = rows.group_by([*keys, "step"]).aggregate(
        [*((name, "sum") for name in means), *((name, "max") for name in most)]
    )
    by_step = by_step.filter(pc.is_in(by_step["step"], value_set=pa.array(counted.step)))
    frame = by_step.to_pandas()
    step_at = np.searchsorted(counted.step, frame["step"].to_numpy())
    found = []
    for kind, at in frame.groupby(list(keys), sort=False, observed=True).indices.items():
        of_kind = frame.iloc[at]
        exposed_ns = np.zeros(len(counted))
        exposed_ns[step_at[at]] = of_kind["exposed_ns_sum"].fillna(0) / ranks
        found.append(
            {
                **dict(zip(keys, kind, strict=True)),
                **{
                    name: float(of_kind[f"{name}_sum"].sum()) / (len(counted) * ranks)
                    for name in means
                },
                **{name: _largest(of_kind[f"{name}_max"].to_numpy()) for name in most},
                "exposed_error_ns": error_of_mean(exposed_ns),
            }
        )
    return found


def _largest(values: Floats) -> int | None:
    told = values[~np.isnan(values)]
    return int(told.max()) if len(told) else None
