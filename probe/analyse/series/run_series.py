"""Everything that is drawn of one run over time, read in one go."""

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from probe.analyse.series.exponents import (
    EXPONENT_COLUMNS,
    ExponentHistogram,
    UnderflowByParameter,
    exponent_histograms,
    underflow_by_parameter,
)
from probe.analyse.series.memory_series import (
    MEMORY_SERIES_COLUMNS,
    MemorySeries,
    memory_series,
)
from probe.analyse.series.offload_series import (
    OFFLOAD_SERIES_COLUMNS,
    OffloadSeries,
    offload_series,
)
from probe.analyse.series.overflow_events import (
    OVERFLOW_EVENT_COLUMNS,
    OverflowEvents,
    overflow_events,
)
from probe.analyse.series.rank_waits import RANK_WAITS_COLUMNS, RankWaits, rank_waits
from probe.analyse.series.step_series import STEP_SERIES_COLUMNS, StepSeries, step_series
from probe.analyse.series.training_series import (
    TRAINING_SERIES_COLUMNS,
    TrainingSeries,
    training_series,
)
from probe.analyse.steps.steps import CountedSteps
from probe.schema.tables import MEMORY, NUMERICS, OFFLOAD, OVERFLOW, STEPS, Table

COLUMNS: Mapping[Table, tuple[str, ...]] = {
    STEPS: tuple(
        dict.fromkeys((*STEP_SERIES_COLUMNS, *TRAINING_SERIES_COLUMNS, *RANK_WAITS_COLUMNS))
    ),
    MEMORY: MEMORY_SERIES_COLUMNS,
    NUMERICS: EXPONENT_COLUMNS,
    OVERFLOW: OVERFLOW_EVENT_COLUMNS,
    OFFLOAD: OFFLOAD_SERIES_COLUMNS,
}
"""The tables and columns that `run_series` reads."""


@dataclass(frozen=True, kw_only=True, eq=False)
class RunSeries:
    """A run over time; None where the run does not tell."""

    steps: StepSeries
    training: TrainingSeries
    memory: Mapping[int, MemorySeries]
    """By rank."""
    waits: RankWaits | None
    offload: OffloadSeries | None
    exponents: tuple[ExponentHistogram, ...]
    underflow: UnderflowByParameter | None
    overflows: OverflowEvents


def run_series(tables: Mapping[Table, pa.Table], counted: CountedSteps) -> RunSeries:
    """All series, from tables with at least the columns of `COLUMNS`."""
    steps = tables[STEPS]
    return RunSeries(
        steps=step_series(steps, counted),
        training=training_series(steps),
        memory=memory_series(tables[MEMORY]),
        waits=rank_waits(steps),
        offload=offload_series(tables[OFFLOAD], counted),
        exponents=exponent_histograms(tables[NUMERICS]),
        underflow=underflow_by_parameter(tables[NUMERICS]),
        overflows=overflow_events(tables[OVERFLOW]),
    )
