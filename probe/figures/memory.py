"""What memory was held for: over time, at the peak beside the closed form, and rank by rank."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from probe.analyse.memory.theory import Beside, Residual
from probe.analyse.memory.use import MemoryPeak, MemoryUse
from probe.analyse.series.memory_series import MemorySeries
from probe.figures.names import words
from probe.figures.palette import (
    BAD,
    MEMORY,
    NEUTRAL,
    Look,
    bar_fill,
    bar_fills,
    hollow_fill,
    line_of,
    pattern,
)
from probe.figures.scales import room_for_labels, size_unit, small_steps
from probe.figures.theme import new_figure
from probe.figures.thinning import points_caption, thin
from probe.schema.vocabulary import MemoryCategory, Tier
from probe.units import format_bytes, format_exact

MOST_STACKED = 1000
MOST_RANK_BARS = 128
MOST_TIMES_LEDGER = 4
"""A line so far above the ledger would press it flat."""
_OUTSIDE = {
    Residual.TEMPORARY: "outside the ledger",
    Residual.NOT_AT_ONCE: "not all at once",
    Residual.FRAGMENTATION: "fragmentation",
}


def memory_over_time(series: MemorySeries, *, tier: Tier = Tier.DEVICE) -> Any:
    """The ledger of one rank stacked by category, with what the allocator saw."""
    held = series.on(tier)
    total = np.sum(list(held.values()), axis=0) if held else np.zeros(len(series), np.int64)
    lines: dict[str, Any] = {}
    if tier is Tier.DEVICE:
        lines = {"allocated": series.allocated_bytes, "reserved": series.reserved_bytes}
    if tier is Tier.HOST or (tier is Tier.DEVICE and series.allocated_bytes is None):
        lines["resident memory of the process"] = series.rss_bytes
    told = {name: values for name, values in lines.items() if values is not None}
    beyond = {
        name: int(values.max())
        for name, values in told.items()
        if held and values.max() > MOST_TIMES_LEDGER * total.max()
    }
    told = {name: values for name, values in told.items() if name not in beyond}
    remarks = [
        f"{name.capitalize()}, at most {format_bytes(size)}, is off this scale."
        for name, size in beyond.items()
    ]
    leading = next(iter(told.values()), total)
    kept = np.union1d(thin(total, limit=MOST_STACKED // 2), thin(leading, limit=MOST_STACKED // 2))
    unit = size_unit(total, *told.values())
    steps = small_steps(series.step[kept])
    largest = {category: int(values.max()) for category, values in held.items()}
    figure = new_figure(
        title=f"Memory of rank {series.rank} on {tier}",
        alternative=f"Over {format_exact(len(series))} steps at most: "
        + ", ".join(f"{words(name)} {format_bytes(size)}" for name, size in largest.items())
        + ".",
        caption=" ".join(filter(None, [points_caption(len(kept), len(series), "steps"), *remarks])),
        xaxis={"title": {"text": "step"}},
        yaxis={"title": {"text": f"held [{unit.name}]"}, "rangemode": "tozero"},
    )
    # One step has no width: a flat line would be invisible, a marker is not.
    mode = "lines" if len(series) > 1 else "lines+markers"
    for category, values in held.items():
        look = MEMORY[category]
        figure.add_trace(
            go.Scatter(
                x=steps,
                y=unit.of(values[kept]),
                name=words(category),
                mode=mode,
                stackgroup="ledger",
                line={"width": 0.5, "color": look.colour, "shape": "hv"},
                fillcolor=look.colour,
                fillpattern=pattern(look),
                hovertemplate=f"%{{y:.4~g}} {unit.name}",
            )
        )
    for (name, values), dash in zip(told.items(), ("solid", "dash", "dot"), strict=False):
        look = Look(colour=BAD.colour if name == "reserved" else NEUTRAL.colour, dash=dash)
        figure.add_trace(
            go.Scatter(
                x=steps,
                y=unit.of(values[kept]),
                name=name,
                mode=mode,
                line={**line_of(look, 1.6), "shape": "hv"},
                hovertemplate=f"%{{y:.4~g}} {unit.name}",
            )
        )
    return figure


def memory_at_peak(lines: Sequence[Beside], peak: MemoryPeak) -> Any:
    """Each category beside its closed form, and a name for what differs."""
    shown = list(reversed(lines))
    unit = size_unit(*([abs(line.measured_bytes) for line in lines] or [0]))
    labels = [_label(line) for line in shown]
    theory = [line.theory_bytes for line in shown]
    figure = new_figure(
        title=f"Memory at the peak of rank {peak.rank}, step {format_exact(peak.step)}",
        alternative="Measured beside the closed form: "
        + "; ".join(
            f"{_label(line)} {format_bytes(line.measured_bytes)}"
            f", expected {format_bytes(line.theory_bytes)}{_why(line)}"
            for line in lines
        )
        + ".",
        height=max(240, 110 + 42 * len(lines)),
        barmode="group",
        bargap=0.3,
        hovermode="closest",
        xaxis={
            "title": {"text": f"memory [{unit.name}]"},
            "range": room_for_labels(
                unit.of(
                    np.array([max(line.measured_bytes, line.theory_bytes or 0) for line in lines])
                )
            ),
        },
        yaxis={"showgrid": False},
    )
    figure.add_trace(
        go.Bar(
            y=labels,
            x=unit.of(np.array([line.theory_bytes or 0 for line in shown])),
            orientation="h",
            name="closed form",
            marker=hollow_fill(NEUTRAL),
            customdata=[format_bytes(size) for size in theory],
            hovertemplate="closed form %{customdata}<extra></extra>",
        )
    )
    figure.add_trace(
        go.Bar(
            y=labels,
            x=unit.of(np.array([line.measured_bytes for line in shown])),
            orientation="h",
            name="measured",
            marker=bar_fills([_look(line) for line in shown]),
            text=[f"{format_bytes(line.measured_bytes)}{_why(line)}" for line in shown],
            textposition="outside",
            textangle=0,
            cliponaxis=False,
            hovertemplate="measured %{text}<extra></extra>",
        )
    )
    return figure


def memory_by_rank(memory: MemoryUse, series: Mapping[int, MemorySeries]) -> Any:
    """The composition of every rank at its own peak; of very many, only the sum."""
    ranks = sorted(memory.rank_peak_bytes)
    peaks = np.array([memory.rank_peak_bytes[rank] for rank in ranks], dtype=np.int64)
    unit = size_unit(peaks)
    usual = float(np.median(peaks))
    fullest = ranks[int(peaks.argmax())]
    figure = new_figure(
        title="Peak memory of each rank",
        alternative=f"{len(ranks)} ranks, median {format_bytes(usual)}, fullest rank {fullest} "
        f"with {format_bytes(int(peaks.max()))}.",
        height=360,
        barmode="stack",
        bargap=0.15,
        xaxis={"title": {"text": "rank"}, "tickformat": "d"},
        yaxis={"title": {"text": f"peak [{unit.name}]"}, "rangemode": "tozero"},
    )
    if len(ranks) <= 16:
        figure.layout.xaxis.dtick = 1
    x = np.array(ranks, dtype=np.int32)
    if len(ranks) <= MOST_RANK_BARS and all(rank in series for rank in ranks):
        at_peak = _composition([series[rank] for rank in ranks])
        for category, sizes in at_peak.items():
            figure.add_trace(
                go.Bar(
                    x=x,
                    y=unit.of(sizes),
                    name=words(category),
                    marker=bar_fill(MEMORY[category]),
                    hovertemplate=f"%{{y:.4~g}} {unit.name}",
                )
            )
    figure.add_trace(
        go.Scatter(
            x=x,
            y=unit.of(peaks),
            name="peak",
            mode="markers",
            marker={
                "symbol": "line-ew-open",
                "size": 16,
                "color": NEUTRAL.colour,
                "line": {"width": 2, "color": NEUTRAL.colour},
            },
            hovertemplate=f"%{{y:.4~g}} {unit.name}",
        )
    )
    return figure


def _composition(ranks: Sequence[MemorySeries]) -> dict[MemoryCategory, Any]:
    """Device categories of each rank in the step in which they sum to most."""
    found: dict[MemoryCategory, Any] = {}
    for place, series in enumerate(ranks):
        held = series.on(Tier.DEVICE)
        if not held:
            continue
        column = (
            np.sum(list(held.values()), axis=0)
            if series.allocated_bytes is None
            else series.allocated_bytes
        )
        fullest = int(column.argmax())
        for category, sizes in held.items():
            row = found.setdefault(category, np.zeros(len(ranks), dtype=np.int64))
            row[place] = sizes[fullest]
    return {category: found[category] for category in MemoryCategory if category in found}


def _label(line: Beside) -> str:
    tier = "" if line.tier is Tier.DEVICE else f"{line.tier} "
    if line.category is None:
        return f"{tier}{_OUTSIDE.get(line.residual, words(line.residual))}"
    return f"{tier}{words(line.category)}"


def _why(line: Beside) -> str:
    """The residual under its name, with its size where there is a closed form to differ from."""
    if line.residual is Residual.NONE or line.category is None:
        return ""
    if line.theory_bytes is None:
        return f" ({words(line.residual)})"
    sign = "+" if line.residual_bytes > 0 else ""
    return f" ({sign}{format_bytes(line.residual_bytes)} {words(line.residual)})"


def _look(line: Beside) -> Look:
    return MEMORY[line.category or MemoryCategory.OTHER]
