"""How sure a mean of sums is: the standard error of what a step's rows add up to, by their kind."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from probe.analyse.statistics.standard_error import error_of_mean
from probe.analyse.steps.steps import CountedSteps


def errors_of_sums(
    rows: pa.Table, keys: Sequence[str], value: str, counted: CountedSteps, *, ranks: int
) -> dict[tuple[Any, ...], float]:
    """For each combination of keys, that of the value's mean over steps and ranks; `rows` are of
    the counted steps, and a step without such a row adds nothing."""
    grouped = rows.group_by([*keys, "step"]).aggregate([(value, "sum")])
    kinds = list(zip(*(grouped[key].to_pylist() for key in keys), strict=True))
    place = {kind: at for at, kind in enumerate(dict.fromkeys(kinds))}
    sums = np.zeros((len(place), len(counted)))
    kind_at = [place[kind] for kind in kinds]
    step_at = np.searchsorted(counted.step, grouped["step"].to_numpy())
    sums[kind_at, step_at] = grouped[f"{value}_sum"].to_numpy() / ranks
    return {kind: error_of_mean(sums[at]) for kind, at in place.items()}
