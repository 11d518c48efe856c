"""Figures as data: what they hold, in what units, how much of it, and that nothing is lost."""

import base64
import dataclasses
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from probe.analyse.compare.comparison import compare_runs
from probe.analyse.compare.measured_run import measure_run
from probe.analyse.series.run_series import RunSeries, run_series
from probe.analyse.trace.activity import find_activity
from probe.analyse.trace.breakdown import add_up, break_down
from probe.analyse.trace.lanes import trace_lanes
from probe.analyse.trace.steps import find_steps
from probe.figures import (
    communication,
    comparison,
    matrix,
    memory,
    numerics,
    offload,
    overlay,
    ranks,
    scale,
    side_by_side,
    steps,
    trace,
)
from probe.figures.bundle import figure_json, point_count
from probe.figures.of_run import precision_charts
from probe.figures.palette import PHASES, WINDOW
from probe.figures.theme import Mode, alternative_of, caption_of, in_mode, title_of
from probe.figures.thinning import MOST_MARKS, MOST_POINTS
from probe.read.trace_file import read_trace
from probe.schema.tables import STEPS
from probe.schema.vocabulary import Phase, Tier
from tests.figures.drawn_run import NAN_STEP, OVERFLOWS, DrawnRun, drawn_run
from tests.traces.made_traces import device_trace

PAGE_POINTS = 100_000
PAGE_BYTES = 1_200_000


@pytest.fixture(scope="module")
def run() -> DrawnRun:
    return drawn_run()


@pytest.fixture(scope="module")
def pair() -> tuple[Any, tuple[DrawnRun, DrawnRun]]:
    runs = drawn_run(), drawn_run(slower=1.1)
    measured = [
        measure_run(item.tables, name=name, manifest=item.manifest)
        for item, name in zip(runs, ("base", "slower"), strict=True)
    ]
    return compare_runs([[item] for item in measured]), runs


def figures_of(run: DrawnRun) -> dict[str, Any]:
    """Every figure of one run."""
    facts, series = run.facts, run.series
    assert facts.memory
    assert facts.communication
    assert facts.gradients
    assert facts.lost_updates
    assert facts.balance
    assert facts.offload
    assert series.waits
    assert series.underflow
    assert series.offload
    return {
        "phases": steps.phases_by_step(series.steps),
        "step times": steps.step_times(series.steps),
        "shares": steps.phase_shares(facts.phases),
        "training": scale.training_story(series.training),
        "ledger": memory.memory_over_time(series.memory[0]),
        "host": memory.memory_over_time(series.memory[0], tier=Tier.HOST),
        "peak": memory.memory_at_peak(facts.memory_lines, facts.memory.peak),
        "ranks": memory.memory_by_rank(facts.memory, series.memory),
        "bandwidths": communication.bandwidths(facts.communication),
        "exposed": communication.exposed_and_hidden(facts.communication),
        "traffic": communication.traffic_beside_closed_form(facts.traffic_lines),
        "sizes": communication.message_sizes(facts.communication),
        "waits": ranks.wait_heatmap(series.waits),
        "ranking": ranks.rank_ranking(facts.balance, facts.waiting),
        "exponents": numerics.exponent_histogram(series.exponents[0]),
        "underflow": numerics.underflow_over_time(facts.gradients),
        "parameters": numerics.underflow_heatmap(series.underflow),
        "lost": numerics.lost_updates_by_parameter(facts.lost_updates),
        "offload": offload.offload_over_time(series.offload),
        "routes": offload.offload_routes(facts.offload),
    }


def all_figures(run: DrawnRun, pair: tuple[Any, tuple[DrawnRun, DrawnRun]]) -> dict[str, Any]:
    """Every figure that there is."""
    compared, runs = pair
    first = compared.pairs[0]
    found = figures_of(run)
    overlaid = overlaid_runs(runs)
    for quantity in overlay.Quantity:
        for along in overlay.Along:
            found[f"overlay {quantity} {along}"] = overlay.overlay(overlaid, quantity, along=along)
    found["waterfall"] = comparison.waterfall_of_phases(first.waterfall, first="A", second="B")
    found["intervals"] = comparison.ratio_intervals(first, material=0.02)
    found["memory pair"] = side_by_side.memory_side_by_side(first)
    found["traffic pair"] = side_by_side.traffic_side_by_side(first)
    found["glance"] = comparison.runs_at_a_glance(compared, ["A", "B"])
    for value in matrix.CellValue:
        found[f"matrix {value}"] = matrix.setup_matrix(compared.runs, value)
    return found


def overlaid_runs(runs: tuple[DrawnRun, ...]) -> list[overlay.OverlaidRun]:
    return [
        overlay.OverlaidRun(
            label=f"run {place}", steps=run.series.steps, training=run.series.training
        )
        for place, run in enumerate(runs)
    ]


def trace_named(figure: Any, name: str) -> Any:
    return next(item for item in figure.data if item.name == name)


def test_every_figure_says_what_it_is_in_title_words_and_units(run, pair) -> None:
    unitless = {
        "step",
        "rank",
        "loss",
        "gradient norm",
        "loss scale",
        "magnitude, power of two",
        "tokens of all ranks since the first step",
        "collectives a step",
    }
    for name, figure in all_figures(run, pair).items():
        assert title_of(figure), name
        assert len(alternative_of(figure)) > 20, name
        assert alternative_of(figure).endswith("."), name
        for key, axis in figure.to_plotly_json()["layout"].items():
            told = axis.get("title", {}).get("text") if key[:5] in ("xaxis", "yaxis") else None
            assert told is None or told in unitless or told.endswith("]"), (name, told)


def test_every_figure_keeps_to_its_budget(run, pair) -> None:
    for name, figure in all_figures(run, pair).items():
        for item in figure.data:
            if item.type != "heatmap":
                longest = max(len(item.x), len(item.y))
                assert longest <= MOST_POINTS, (name, item.name)
            assert item.type != "scattergl"
        assert len(figure_json(figure)) < PAGE_BYTES / 8, name


def test_long_runs_are_thinned_and_say_so() -> None:
    run = drawn_run(ranks=2, steps=3000)
    drawn = figures_of(run)
    assert sum(map(point_count, drawn.values())) < PAGE_POINTS
    assert sum(len(figure_json(figure)) for figure in drawn.values()) < PAGE_BYTES
    assert "of 3,000 steps" in caption_of(drawn["phases"])
    assert "of 3,000 steps" in caption_of(drawn["ledger"])
    assert "points" in caption_of(drawn["training"])
    assert "longest wait in 5 steps" in caption_of(drawn["waits"])
    # No overflow and no nan is lost on the way.
    marks = trace_named(drawn["training"], "overflow, skipped")
    assert marks.x.tolist() == list(OVERFLOWS)
    assert trace_named(drawn["training"], "loss is nan").x.tolist() == [NAN_STEP]


def test_arrays_travel_as_bytes(run, pair) -> None:
    for name, figure in all_figures(run, pair).items():
        for item in json.loads(figure_json(figure))["data"]:
            for key in ("x", "y", "z", "customdata"):
                values = item.get(key)
                if isinstance(values, list) and values:
                    assert isinstance(values[0], str), (name, key)
                elif isinstance(values, dict):
                    assert values["dtype"] in ("f4", "i4"), (name, key, values["dtype"])


def test_phases_stack_to_the_step_time(run) -> None:
    figure = steps.phases_by_step(run.series.steps)
    total = np.sum([item.y for item in figure.data], axis=0)
    assert np.allclose(total, run.series.steps.wall_ns / 1e6, rtol=1e-5)
    assert [item.name for item in figure.data] == [
        phase.replace("_", " ") for phase in Phase if run.series.steps.phase_ns[phase].any()
    ]
    assert figure.data[0].x.dtype == np.int32
    assert figure.data[0].y.dtype == np.float32


def test_few_steps_are_bars(run) -> None:
    few = drawn_run(ranks=1, steps=5)
    assert {item.type for item in steps.phases_by_step(few.series.steps).data} == {"bar"}


def test_the_bar_of_shares_sums(run) -> None:
    figure = steps.phase_shares(run.facts.phases)
    assert sum(float(item.x[0]) for item in figure.data) == pytest.approx(100, abs=1e-3)
    assert caption_of(figure).startswith("Parts sum to 100.0 %, other ")


def test_steps_that_do_not_count_are_marked(run) -> None:
    figure = steps.step_times(run.series.steps)
    assert trace_named(figure, "skipped").x.tolist() == list(OVERFLOWS)
    assert trace_named(figure, "profiled").x.tolist() == [20, 21, 22, 23]
    assert trace_named(figure, "warm up").x.tolist() == [4, 5]


def test_the_scale_is_the_exact_step_function(run) -> None:
    line = trace_named(scale.training_story(run.series.training), "loss scale")
    assert line.line.shape == "hv"
    series = run.series.training
    held = line.y[np.searchsorted(line.x, series.step, side="right") - 1]
    assert (held == series.scale).all()
    assert len(line.x) == 8


def test_events_of_the_scale_are_marked(run) -> None:
    figure = scale.training_story(run.series.training)
    series = run.series.training
    for name, flags in (
        ("overflow, skipped", series.overflowed),
        ("hysteresis spent", series.hysteresis_spent),
        ("scale lowered", series.lowered),
        ("scale raised", series.raised),
    ):
        assert trace_named(figure, name).x.tolist() == series.step[flags].tolist(), name
    # The first overflow spends hysteresis; the ones behind it halve the scale.
    assert series.step[series.hysteresis_spent].tolist() == [0, 90, 150]


def test_what_is_no_number_is_drawn_at_the_rim(run) -> None:
    figure = scale.training_story(run.series.training)
    nan = trace_named(figure, "loss is nan")
    assert nan.x.tolist() == [NAN_STEP]
    axis = figure.layout[nan.yaxis.replace("y", "yaxis")]
    assert tuple(axis.range) == (0, 1)
    assert axis.fixedrange
    assert trace_named(figure, "gradient norm is inf").x.tolist() == list(OVERFLOWS)
    assert not np.isfinite(trace_named(figure, "loss").y).all()


def test_all_overflowing_is_still_one_picture() -> None:
    run = drawn_run(ranks=1, steps=2500)
    table = run.tables[STEPS]
    flags = pa.array([True] * table.num_rows)
    place = table.column_names.index("skipped")
    tables = {**run.tables, STEPS: table.set_column(place, "skipped", flags)}
    series: RunSeries = run_series(tables, run.facts.counted)
    marks = trace_named(scale.training_story(series.training), "overflow, skipped")
    assert len(marks.x) <= MOST_MARKS
    assert marks.customdata.sum() == 2500


def test_the_peak_stands_beside_its_closed_form(run) -> None:
    figure = memory.memory_at_peak(run.facts.memory_lines, run.facts.memory.peak)
    measured = dict(zip(figure.data[1].y, figure.data[1].text, strict=True))
    assert measured["params"] == "200 MB"
    assert measured["grads"] == "50.0 MB (+50.0 MB unexplained)"
    assert measured["grad buckets"] == "100 MB (buckets)"
    assert set(figure.data[0].y) == set(figure.data[1].y)


def test_a_process_far_larger_than_its_ledger_does_not_hide_it(run) -> None:
    series = run.series.memory[0]
    ledger = trace_names(memory.memory_over_time(series, tier=Tier.HOST))
    assert ledger == ["master params", "optimizer states", "resident memory of the process"]
    huge = dataclasses.replace(series, rss_bytes=series.rss_bytes * 10)
    figure = memory.memory_over_time(huge, tier=Tier.HOST)
    assert trace_names(figure) == ledger[:2]
    assert "Resident memory of the process, at most 9" in caption_of(figure)
    assert caption_of(figure).endswith("is off this scale.")


def trace_names(figure: Any) -> list[str]:
    return [item.name for item in figure.data]


def test_time_in_collectives_stands_beside_own_time_and_is_not_added(run) -> None:
    facts = run.facts
    figure = ranks.rank_ranking(facts.balance, facts.waiting)
    by_name = {trace.name: trace for trace in figure.data}
    own, busy = by_name["forward and backward"], by_name["in collectives"]
    assert figure.layout.barmode == "group"
    assert own.offsetgroup != busy.offsetgroup
    assert not np.asarray(busy.base).any()


def test_what_a_trace_tells_apart_has_no_colour_of_a_phase() -> None:
    phases = {look.colour for phase, look in PHASES.items() if phase is not Phase.OTHER}
    assert not phases & {look.colour for look in WINDOW.values()}


def test_one_sample_of_underflow_is_no_chart(run) -> None:
    def titles(facts: Any) -> set[str]:
        return {title_of(chart.figure) for chart in precision_charts(facts, run.series)}

    assert len(run.facts.gradients.by_step) > 1
    first = dict(list(run.facts.gradients.by_step.items())[:1])
    once = dataclasses.replace(
        run.facts, gradients=dataclasses.replace(run.facts.gradients, by_step=first)
    )
    assert titles(run.facts) - titles(once) == {"Underflow and headroom of gradients"}


def test_heatmaps_show_who_waits_least(run) -> None:
    figure = ranks.wait_heatmap(run.series.waits)
    assert figure.data[0].z.shape == (4, 200)
    assert int(figure.data[0].z.mean(axis=1).argmin()) == 2
    assert "Rank 2 waits least" in alternative_of(figure)


def test_the_histogram_adds_up_to_what_was_sampled(run) -> None:
    histogram = run.series.exponents[0]
    rows = run.tables[next(table for table in run.tables if table.name == "numerics")]
    sampled = sum(sum(row) for row in rows["exponent_elements"].to_pylist())
    assert histogram.elements.sum() == sampled
    figure = numerics.exponent_histogram(histogram)
    assert figure.data[0].y.sum() == pytest.approx(sampled, rel=1e-6)
    assert len(figure.layout.shapes) == 3


def test_the_waterfall_sums(pair) -> None:
    fall = pair[0].pairs[0].waterfall
    figure = comparison.waterfall_of_phases(fall, first="A", second="B")
    ends, parts = figure.data[0], figure.data[1]
    signed = [
        -length if text.startswith("-") else length
        for length, text in zip(parts.y.tolist(), parts.text, strict=True)
    ]
    difference = (fall.second_ns - fall.first_ns) / 1e6
    assert sum(signed) == pytest.approx(difference, rel=1e-4)
    assert float(ends.y[1] - ends.y[0]) == pytest.approx(difference, rel=1e-4)


def test_intervals_show_band_and_verdict(pair) -> None:
    figure = comparison.ratio_intervals(pair[0].pairs[0], material=0.02)
    band = figure.layout.shapes[0]
    assert (band.x0, band.x1) == (-2.0, 2.0)
    assert any("slower" in text for text in figure.data[0].text)


def test_overlays_name_who_is_silent(pair) -> None:
    runs = overlaid_runs(pair[1])
    blind = overlay.OverlaidRun(
        label="blind",
        steps=runs[1].steps,
        training=run_series(
            {
                **pair[1][1].tables,
                STEPS: without(pair[1][1].tables[STEPS], "loss"),
            },
            pair[1][1].facts.counted,
        ).training,
    )
    figure = overlay.overlay([runs[0], blind], overlay.Quantity.LOSS)
    assert figure.data[0].name == "run 0"
    assert caption_of(figure).endswith("Not told by blind.")


def without(table: pa.Table, column: str) -> pa.Table:
    place = table.column_names.index(column)
    return table.set_column(place, column, pa.nulls(table.num_rows, pa.float64()))


def test_lanes_show_how_busy_a_slot_was(tmp_path) -> None:
    made = read_trace(device_trace().write(tmp_path / "trace.json.gz"))
    lanes = trace_lanes(made, rank=3)
    assert lanes is not None
    figure = trace.lanes_of_ranks([lanes])
    assert {item.name for item in figure.data} >= {"computation", "communication"}
    assert all(item.y[0].startswith("rank 3") for item in figure.data)
    for item in lanes.lanes:
        covered = (item.ends_ns - item.begins_ns) * item.busy_share
        assert covered.sum() >= item.busy_ns
        assert (item.begins_ns[1:] >= item.ends_ns[:-1]).all()
    total = add_up(break_down(find_activity(made), find_steps(made).steps))
    bars = trace.window_breakdown([("rank 3", total)])
    parts = sum(float(item.x[0]) for item in bars.data)
    unit = bars.layout.xaxis.title.text.removeprefix("time [").removesuffix("]")
    assert parts == pytest.approx(total.wall_ns / {"ns": 1, "µs": 1e3, "ms": 1e6}[unit], rel=1e-5)


def test_the_same_figure_serves_both_grounds(run) -> None:
    figure = steps.step_times(run.series.steps)
    dark = in_mode(figure, Mode.DARK)
    assert dark.layout.template.layout.paper_bgcolor != figure.layout.template.layout.paper_bgcolor
    assert figure_json(figure) == figure_json(dark)


def test_json_holds_the_values(run) -> None:
    figure = steps.step_times(run.series.steps)
    told = json.loads(figure_json(figure))
    assert "template" not in told["layout"]
    y = np.frombuffer(base64.b64decode(told["data"][0]["y"]["bdata"]), np.float32)
    assert (y == figure.data[0].y).all()


HOSTILE = (
    "<script>alert(1)</script>",
    "</title></script><img src=x onerror=alert(1)>",
    "<a href='javascript:alert(1)'>x</a>",
    "%{x} $\\alpha$ &lt;b&gt;",
    "\u202egnp.exe\x1b[2J\n",
    "x" * 5000,
)


@pytest.mark.parametrize("draw", [numerics.underflow_heatmap])
def test_names_are_text(draw: Callable[..., Any]) -> None:
    run = drawn_run(ranks=1, steps=40, names=HOSTILE)
    figure = draw(run.series.underflow)
    lost = numerics.lost_updates_by_parameter(run.facts.lost_updates)
    for text in (*figure.data[0].y, *lost.data[0].y, alternative_of(figure), alternative_of(lost)):
        assert "<" not in text
        assert "%{" not in text
        assert "$" not in text
        assert text.isprintable()
        assert len(text) < 600
