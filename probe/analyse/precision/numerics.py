"""How well gradients and weights fit their 16-bit type, from the sampled histograms.

Shares are of the elements that are neither zero nor infinite nor nan. The underflow share is what
the type rounds to zero at the scale in use; the subnormal share is what it keeps with fewer digits.
Headroom is counted in powers of two: how often the scale could double before the largest sampled
gradient left the type's range. Lost updates are weights whose update vanished in the rounding to
16 bit; fp32 master weights keep them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import floor, isfinite

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from probe.analyse.steps.steps import Integers
from probe.schema.vocabulary import TensorRole

NUMERICS_COLUMNS = (
    "rank",
    "step",
    "parameter",
    "role",
    "block",
    "dtype",
    "tensor_elements",
    "zero_elements",
    "subnormal_elements",
    "underflow_elements",
    "nonfinite_elements",
    "largest_magnitude",
    "lost_update_elements",
    "loss_scale",
)
"""Columns of the numerics table that `gradient_range` and `lost_updates` read."""

LARGEST_FINITE = {
    "fp16": 65504.0,
    "float16": 65504.0,
    "bf16": 3.3895313892515355e38,
    "bfloat16": 3.3895313892515355e38,
    "fp32": 3.4028234663852886e38,
    "float32": 3.4028234663852886e38,
}


@dataclass(frozen=True, kw_only=True)
class Fit:
    """How a set of sampled gradients fits its type; None where nothing could be told."""

    elements: int
    """Elements looked at that are neither zero nor infinite nor nan."""
    underflow_share: float | None
    subnormal_share: float | None
    headroom_powers: float | None
    """The least over the samples."""


@dataclass(frozen=True, kw_only=True)
class GradientRange:
    """All sampled gradients of a run: together, by step and by parameter."""

    dtype: str
    """The type that was judged against; several are joined by a comma."""
    together: Fit
    by_step: Mapping[int, Fit]
    by_parameter: Mapping[str, Fit]
    """Most underflow first."""
    safe_scale_power: int | None
    """Largest power of two that no sample would have overflowed with; None without scales."""

    def between(self, first: int, last: int) -> "GradientRange":
        """By step those of some steps, both ends among them; all else stays that of the run."""
        kept = {step: fit for step, fit in self.by_step.items() if first <= step <= last}
        return replace(self, by_step=kept)


@dataclass(frozen=True, kw_only=True)
class LostUpdates:
    """Weights whose update vanished in the rounding to 16 bit."""

    elements: int
    share: float
    """Of the weights looked at."""
    by_parameter: Mapping[str, float]
    """Share of each parameter, the largest first."""


def gradient_range(numerics: pa.Table) -> GradientRange | None:
    """None without a sampled gradient."""
    rows = numerics.filter(pc.equal(numerics["role"], TensorRole.GRADIENT.value))
    if not rows.num_rows:
        return None
    samples = _Samples.of(rows)
    steps, step_at = np.unique(rows["step"].to_numpy(), return_inverse=True)
    parameters = rows["parameter"].combine_chunks().dictionary_encode()
    parameter_at = parameters.indices.to_numpy()
    by_parameter = zip(parameters.dictionary.to_pylist(), samples.fits(parameter_at), strict=True)
    return GradientRange(
        dtype=", ".join(sorted(pc.unique(rows["dtype"]).to_pylist())),
        together=samples.fits(np.zeros_like(step_at))[0],
        by_step=dict(zip(steps.tolist(), samples.fits(step_at), strict=True)),
        by_parameter=dict(sorted(by_parameter, key=lambda item: -(item[1].underflow_share or 0.0))),
        safe_scale_power=samples.safe_scale_power(),
    )


def lost_updates(numerics: pa.Table) -> LostUpdates | None:
    """None if no row tells of lost updates."""
    rows = numerics.filter(pc.is_valid(numerics["lost_update_elements"]))
    total = pc.sum(rows["tensor_elements"]).as_py()
    if not total:
        return None
    lost = pc.sum(rows["lost_update_elements"]).as_py()
    by_parameter = rows.group_by("parameter").aggregate(
        [("lost_update_elements", "sum"), ("tensor_elements", "sum")]
    )
    shares = {
        row["parameter"]: row["lost_update_elements_sum"] / row["tensor_elements_sum"]
        for row in by_parameter.to_pylist()
        if row["tensor_elements_sum"]
    }
    return LostUpdates(
        elements=lost,
        share=lost / total,
        by_parameter=dict(sorted(shares.items(), key=lambda item: -item[1])),
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class _Samples:
    """The columns of sampled gradients as arrays."""

    proper: Integers
    underflow: Integers
    subnormal: Integers
    headroom: np.ndarray[tuple[int], np.dtype[np.float64]]
    """log2 of the type's largest number over the largest magnitude; nan where unknown."""
    scale: np.ndarray[tuple[int], np.dtype[np.float64]]

    @classmethod
    def of(cls, rows: pa.Table) -> "_Samples":
        def integers(name: str) -> Integers:
            column: Integers = rows[name].to_numpy()
            return column

        largest = rows["largest_magnitude"].fill_null(np.nan).to_numpy()
        limits = [LARGEST_FINITE.get(name, np.nan) for name in rows["dtype"].to_pylist()]
        with np.errstate(divide="ignore", invalid="ignore"):
            headroom = np.log2(np.array(limits)) - np.log2(largest)
        return cls(
            proper=integers("tensor_elements")
            - integers("zero_elements")
            - integers("nonfinite_elements"),
            underflow=integers("underflow_elements"),
            subnormal=integers("subnormal_elements"),
            headroom=np.where(np.isfinite(headroom), headroom, np.nan),
            scale=rows["loss_scale"].fill_null(np.nan).to_numpy(),
        )

    def fits(self, group_at: Integers) -> list[Fit]:
        """One fit a group; `group_at` numbers the group of each sample, without gaps."""
        order = np.argsort(group_at, kind="stable")
        starts = np.flatnonzero(np.diff(group_at[order], prepend=-1))
        proper, underflow, subnormal = (
            np.add.reduceat(counts[order], starts).tolist()
            for counts in (self.proper, self.underflow, self.subnormal)
        )
        headroom = np.fmin.reduceat(self.headroom[order], starts).tolist()
        return [
            Fit(
                elements=elements,
                underflow_share=under / elements if elements else None,
                subnormal_share=sub / elements if elements else None,
                headroom_powers=None if powers != powers else powers,
            )
            for elements, under, sub, powers in zip(
                proper, underflow, subnormal, headroom, strict=True
            )
        ]

    def safe_scale_power(self) -> int | None:
        scaled = (self.scale > 0) & ~np.isnan(self.headroom)
        if not scaled.any():
            return None
        powers = np.log2(self.scale[scaled]) + self.headroom[scaled]
        least = float(powers.min())
        return floor(least) if isfinite(least) else None
