"""The sampled histograms of exponents, added up, and how each parameter fits its type over time.

Magnitudes are as the type sees them, at the loss scale in use. Histograms of one role and type are
added over ranks, steps and parameters, power of two by power of two.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from probe.analyse.steps.steps import Integers
from probe.schema.vocabulary import TensorRole

EXPONENT_COLUMNS = (
    "rank",
    "step",
    "parameter",
    "role",
    "dtype",
    "tensor_elements",
    "zero_elements",
    "underflow_elements",
    "nonfinite_elements",
    "lowest_exponent",
    "exponent_elements",
    "loss_scale",
)
"""Columns of the numerics table that are read here."""
MOST_PARAMETERS = 40


@dataclass(frozen=True, kw_only=True, eq=False)
class ExponentHistogram:
    """How many elements have a magnitude in [2^e, 2^(e+1))."""

    role: str
    dtype: str
    """The type that the elements are judged against."""
    exponent: Integers
    elements: Integers
    zero_elements: int
    nonfinite_elements: int
    samples: int
    """Histograms added up."""
    first_step: int
    last_step: int
    lowest_scale: float | None
    highest_scale: float | None


@dataclass(frozen=True, kw_only=True, eq=False)
class UnderflowByParameter:
    """Share of each gradient that its type rounds to zero, parameters down and steps across."""

    parameters: tuple[str, ...]
    """Those that underflow most, in the order in which they were first recorded."""
    of_parameters: int
    """How many were sampled in all."""
    step: Integers
    share: npt.NDArray[np.float64]
    """nan where nothing was sampled."""

    @property
    def sampled(self) -> bool:
        """Whether anything was."""
        return bool(np.isfinite(self.share).any())


def exponent_histograms(numerics: pa.Table) -> tuple[ExponentHistogram, ...]:
    """One a role and type, gradients first."""
    keys = numerics.group_by(["role", "dtype"]).aggregate([]).to_pylist()
    keys.sort(key=lambda key: (key["role"] != TensorRole.GRADIENT, key["role"], key["dtype"]))
    found = []
    for key in keys:
        chosen = pc.and_(
            pc.equal(numerics["role"], key["role"]), pc.equal(numerics["dtype"], key["dtype"])
        )
        rows = numerics.filter(chosen)
        if histogram := _histogram(rows, key["role"], key["dtype"]):
            found.append(histogram)
    return tuple(found)


def _histogram(rows: pa.Table, role: str, dtype: str) -> ExponentHistogram | None:
    lists = rows["exponent_elements"].combine_chunks()
    lengths = pc.list_value_length(lists).to_numpy(zero_copy_only=False).astype(np.int64)
    counts = lists.flatten().to_numpy(zero_copy_only=False)
    if not counts.any():
        return None
    lowest = rows["lowest_exponent"].to_numpy()
    within = np.arange(len(counts)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    exponent_of = np.repeat(lowest, lengths) + within
    exponents, at = np.unique(exponent_of, return_inverse=True)
    elements = np.zeros(len(exponents), dtype=np.int64)
    np.add.at(elements, at, counts)
    filled = np.flatnonzero(elements)
    span = slice(int(filled[0]), int(filled[-1]) + 1)
    scales = pc.min_max(rows["loss_scale"]).as_py()
    steps = pc.min_max(rows["step"]).as_py()
    return ExponentHistogram(
        role=role,
        dtype=dtype,
        exponent=exponents[span],
        elements=elements[span],
        zero_elements=pc.sum(rows["zero_elements"]).as_py(),
        nonfinite_elements=pc.sum(rows["nonfinite_elements"]).as_py(),
        samples=rows.num_rows,
        first_step=steps["min"],
        last_step=steps["max"],
        lowest_scale=scales["min"],
        highest_scale=scales["max"],
    )


def underflow_by_parameter(numerics: pa.Table) -> UnderflowByParameter | None:
    """None unless any sampled gradient underflowed."""
    rows = numerics.filter(pc.equal(numerics["role"], TensorRole.GRADIENT.value))
    lost = rows["underflow_elements"].to_numpy()
    if not lost.any():
        return None
    proper = (
        rows["tensor_elements"].to_numpy()
        - rows["zero_elements"].to_numpy()
        - rows["nonfinite_elements"].to_numpy()
    )
    names = rows["parameter"].combine_chunks().dictionary_encode()
    numbers, step_at = np.unique(rows["step"].to_numpy(), return_inverse=True)
    place = names.indices.to_numpy() * len(numbers) + step_at
    shape = (len(names.dictionary), len(numbers))
    sums = [
        np.bincount(place, weights=counts, minlength=shape[0] * shape[1]).reshape(shape)
        for counts in (lost, proper)
    ]
    with np.errstate(invalid="ignore"):
        share = sums[0] / np.where(sums[1] > 0, sums[1], np.nan)
        overall = sums[0].sum(axis=1) / np.maximum(1, sums[1].sum(axis=1))
    worst = np.sort(np.argsort(-overall, kind="stable")[:MOST_PARAMETERS])
    every = names.dictionary.to_pylist()
    return UnderflowByParameter(
        parameters=tuple(every[place] for place in worst),
        of_parameters=len(every),
        step=numbers.astype(np.int64),
        share=share[worst],
    )
