"""A part of a run's series: the steps that someone looks at, at full resolution."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from probe.analyse.series.run_series import RunSeries
from probe.errors import UsageError

Series = TypeVar("Series")
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True)
class StepRange:
    """Steps from the first to the last, both of them in it."""

    first: int
    last: int

    def __str__(self) -> str:
        return str(self.first) if self.first == self.last else f"{self.first}-{self.last}"

    @property
    def words(self) -> str:
        """The same within a sentence: steps 120 to 180."""
        one = self.first == self.last
        return f"step {self.first:,}" if one else f"steps {self.first:,} to {self.last:,}"


def parse_step_range(text: str) -> StepRange | None:
    """A range as people and links write it: 120-180, or 120 alone; None for an empty text."""
    if not text.strip():
        return None
    first, dash, last = text.replace("–", "-").replace(" ", "").partition("-")
    if not (first.isascii() and first.isdigit()) or (
        dash and not (last.isascii() and last.isdigit())
    ):
        raise UsageError(f"{text[:40]!r} is no range of steps; write 120-180, or 120 for one step.")
    if max(len(first), len(last)) > 18:
        raise UsageError(f"{text[:40]!r} goes beyond any step; write 120-180.")
    low, high = int(first), int(last or first)
    return StepRange(first=min(low, high), last=max(low, high))


def within(series: RunSeries, steps: StepRange | None) -> RunSeries:
    """The series of these steps alone; histograms over a run stay those of the whole run."""
    if steps is None:
        return series
    return replace(
        series,
        steps=_cut(series.steps, steps),
        training=_cut(series.training, steps),
        memory={rank: _cut(of_rank, steps) for rank, of_rank in series.memory.items()},
        waits=None if series.waits is None else _cut(series.waits, steps),
        offload=None if series.offload is None else _cut(series.offload, steps),
        underflow=None if series.underflow is None else _cut(series.underflow, steps),
        overflows=series.overflows.between(steps.first, steps.last),
    )


def _cut(series: Series, steps: StepRange) -> Series:
    """Every array that has an entry a step, cut to the chosen steps; all else as it is."""
    numbers: Any = series.step  # type: ignore[attr-defined]
    chosen = (numbers >= steps.first) & (numbers <= steps.last)
    changed: dict[str, Any] = {}
    for field in fields(series):  # type: ignore[arg-type]
        value = getattr(series, field.name)
        if isinstance(value, Mapping):
            changed[field.name] = {key: _cut_array(item, chosen) for key, item in value.items()}
        else:
            changed[field.name] = _cut_array(value, chosen)
    return replace(series, **changed)  # type: ignore[type-var]


def _cut_array(value: Any, chosen: Flags) -> Any:
    """Steps are the last axis wherever they are an axis."""
    if isinstance(value, np.ndarray) and value.shape[-1] == len(chosen):
        return value[..., chosen]
    return value
