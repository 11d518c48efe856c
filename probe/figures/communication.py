"""What ranks exchange: how fast, how much of it is exposed, how much there should be."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from probe.analyse.communication.theory import TrafficBeside
from probe.analyse.communication.use import Communication, OperationTraffic
from probe.figures.exposed_hidden import add_exposed_and_hidden
from probe.figures.names import words
from probe.figures.palette import (
    NEUTRAL,
    PHASES,
    PLAIN,
    Look,
    bar_fill,
    bar_fills,
    hollow_fill,
    operation_look,
)
from probe.figures.scales import (
    rate_unit,
    room_for_labels,
    size_unit,
    small_floats,
    time_unit,
)
from probe.figures.theme import new_figure
from probe.schema.vocabulary import Phase
from probe.units import format_bytes, format_duration, format_number, format_percent

MOST_OPERATIONS = 12


def bandwidths(comm: Communication) -> Any:
    """Algorithm and bus bandwidth of every operation, as nccl-tests define them."""
    shown = [item for item in comm.operations if item.busbw_bytes_per_s]
    shown = sorted(shown, key=lambda item: -item.busy_ns)[:MOST_OPERATIONS][::-1]
    algorithm = np.array([item.algbw_bytes_per_s or 0 for item in shown])
    bus = np.array([item.busbw_bytes_per_s or 0 for item in shown])
    unit = rate_unit(algorithm, bus)
    labels = [_label(item) for item in shown]
    figure = new_figure(
        title="Bandwidth of each operation",
        alternative="Bus bandwidth: "
        + ", ".join(
            f"{label} {format_bytes(rate)}/s" for label, rate in zip(labels, bus, strict=True)
        )
        + ".",
        caption=_left_out(len(shown), len(comm.operations)),
        height=120 + 44 * max(2, len(shown)),
        barmode="group",
        bargap=0.3,
        hovermode="closest",
        xaxis={"title": {"text": f"bandwidth [{unit.name}]"}, "rangemode": "tozero"},
        yaxis={"showgrid": False},
    )
    figure.add_trace(
        go.Bar(
            y=labels,
            x=unit.of(algorithm),
            orientation="h",
            name="algbw",
            marker=hollow_fill(NEUTRAL),
            hovertemplate=f"algbw %{{x:.4~g}} {unit.name}<extra></extra>",
        )
    )
    figure.add_trace(
        go.Bar(
            y=labels,
            x=unit.of(bus),
            orientation="h",
            name="busbw",
            marker=bar_fills([operation_look(item.op) for item in shown]),
            hovertemplate=f"busbw %{{x:.4~g}} {unit.name}<extra></extra>",
        )
    )
    return figure


def exposed_and_hidden(comm: Communication) -> Any:
    """Busy time of a step by operation and phase: in sight of compute, and hidden under it."""
    shown = sorted(comm.operations, key=lambda item: -item.busy_ns)[:MOST_OPERATIONS][::-1]
    exposed = np.array([item.exposed_ns for item in shown], dtype=np.float64)
    hidden = np.maximum(0, np.array([item.busy_ns for item in shown]) - exposed)
    unit = time_unit(exposed + hidden)
    labels = [_label(item) for item in shown]
    share = comm.exposed_step_share
    figure = new_figure(
        title="Communication in a step: exposed and hidden",
        alternative=f"{format_duration(comm.exposed_ns)} of {format_duration(comm.busy_ns)} a step "
        f"is exposed ({format_percent(share)} of the step): "
        + ", ".join(
            f"{label} {format_duration(time)}" for label, time in zip(labels, exposed, strict=True)
        )
        + ".",
        caption=_left_out(len(shown), len(comm.operations)),
        height=130 + 30 * max(2, len(shown)),
        xaxis={"title": {"text": f"busy a step [{unit.name}]"}},
        yaxis={"showgrid": False},
    )
    add_exposed_and_hidden(
        figure,
        labels,
        exposed_ns=exposed,
        hidden_ns=hidden,
        unit=unit,
        exposed_look=Look(colour=PHASES[Phase.REDUCE_WAIT].colour),
    )
    return figure


def traffic_beside_closed_form(lines: Sequence[TrafficBeside]) -> Any:
    """Asked for, sent, and what the stage must move."""
    unit = size_unit(
        *(
            max(
                line.logical_bytes,
                line.wire_bytes,
                line.theory_logical_bytes,
                line.theory_wire_bytes,
            )
            for line in lines
        )
    )
    labels = [
        f"{words(line.exchange)}, {what}" for line in lines for what in ("payload", "on the wire")
    ]
    recorded = [size for line in lines for size in (line.logical_bytes, line.wire_bytes)]
    expected = [
        size for line in lines for size in (line.theory_logical_bytes, line.theory_wire_bytes)
    ]
    remarks = [remark for line in lines for remark in (words(line.residual), _replaced(line))]
    said = [
        f"{label}: {remark}"
        for label, remark in zip(labels, remarks, strict=True)
        if remark not in ("", "none")
    ]
    figure = new_figure(
        title="Bytes of a step beside the closed form",
        caption=f"{'; '.join(said)}." if said else "",
        alternative="; ".join(
            f"{label} {format_bytes(round(size))}, expected {format_bytes(round(form))}"
            for label, size, form in zip(labels, recorded, expected, strict=True)
        )
        + ".",
        height=120 + 48 * len(labels),
        barmode="group",
        bargap=0.3,
        hovermode="closest",
        xaxis={
            "title": {"text": f"a rank and step [{unit.name}]"},
            "range": room_for_labels(unit.of(np.array([*recorded, *expected]))),
        },
        yaxis={"showgrid": False, "autorange": "reversed"},
    )
    figure.add_trace(
        go.Bar(
            y=labels,
            x=unit.of(np.array(recorded)),
            orientation="h",
            name="recorded",
            marker=bar_fill(PLAIN),
            text=[format_bytes(round(size)) for size in recorded],
            textposition="outside",
            textangle=0,
            cliponaxis=False,
            hovertemplate="recorded %{text}<extra></extra>",
        )
    )
    figure.add_trace(
        go.Bar(
            y=labels,
            x=unit.of(np.array(expected)),
            orientation="h",
            name="closed form",
            marker=hollow_fill(NEUTRAL),
            hovertemplate=f"closed form %{{x:.4~g}} {unit.name}<extra></extra>",
        )
    )
    return figure


def message_sizes(comm: Communication) -> Any:
    """How many collectives of what size a step makes, operation by operation."""
    shown = [item for item in comm.operations if item.bytes_per_call]
    figure = new_figure(
        title="Sizes of collectives",
        alternative="Mean payload of a collective: "
        + ", ".join(
            f"{_label(item)} {format_bytes(item.bytes_per_call)}, "
            f"{format_number(item.calls)} a step"
            for item in shown
        )
        + ".",
        hovermode="closest",
        xaxis={
            "title": {"text": "mean payload of a collective [bytes, log]"},
            **_decades([item.bytes_per_call or 1.0 for item in shown]),
        },
        yaxis={"title": {"text": "collectives a step"}, "rangemode": "tozero"},
    )
    for item in shown:
        look = operation_look(item.op)
        figure.add_trace(
            go.Scatter(
                x=small_floats(np.array([item.bytes_per_call or 0.0])),
                y=small_floats(np.array([item.calls])),
                name=_label(item),
                mode="markers",
                marker={
                    "size": 12,
                    "color": look.colour,
                    # Hollow, so that one on the place of another leaves it to be seen.
                    "symbol": f"{_PHASE_SYMBOL.get(item.phase, 'circle')}-open",
                    "line": {"width": 2.5},
                },
                hovertemplate=f"{_label(item)}: {format_bytes(item.bytes_per_call)}, "
                "%{y:.4~g} a step<extra></extra>",
            )
        )
    return figure


_PHASE_SYMBOL = {
    Phase.FORWARD.value: "circle",
    Phase.BACKWARD.value: "square",
    Phase.GATHER_WAIT.value: "triangle-down",
    Phase.REDUCE_WAIT.value: "pentagon",
    Phase.OPTIMIZER.value: "diamond",
    Phase.DATA.value: "triangle-up",
    Phase.CHECKPOINT.value: "star",
    Phase.OTHER.value: "cross",
}


def _decades(values: Sequence[float]) -> dict[str, Any]:
    """A logarithmic axis with a tick at each power of ten around the values."""
    logs = np.log10(values)
    powers = range(int(np.floor(logs.min())), int(np.ceil(logs.max())) + 1)
    return {
        "type": "log",
        "tickvals": [10.0**power for power in powers],
        "ticktext": [format_bytes(10.0**power) for power in powers],
        "range": [powers[0] - 0.3, powers[-1] + 0.3],
    }


def _label(item: OperationTraffic) -> str:
    return f"{words(item.op)} · {words(item.phase)}"


def _replaced(line: TrafficBeside) -> str:
    return f"as {', '.join(map(words, line.replaced_by))}" if line.replaced_by else ""


def _left_out(shown: int, total: int) -> str:
    return "" if shown >= total else f"The {shown} busiest of {total} operations."
