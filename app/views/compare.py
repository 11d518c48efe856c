"""Two to eight runs: whether they may be compared, what differs, what changed and why."""

import streamlit as st

from app.drawing import draw_all, table
from app.loading import history_beside, measured, told
from app.state import MOST_COMPARED, ViewState
from probe.analyse.compare.comparison import Comparison, Pair, compare_runs, side_label
from probe.analyse.compare.gate import judge
from probe.analyse.compare.next_looks import next_looks
from probe.analyse.series.within import within
from probe.figures.of_comparison import (
    held_and_sent_charts,
    matrix_charts,
    overlay_charts,
    time_charts,
)
from probe.figures.overlay import OverlaidRun
from probe.telling.comparison_json import comparison_json
from probe.telling.json_text import json_text
from probe.text.comparison_blocks import (
    differences_block,
    measures_block,
    names_block,
    runs_block,
    sentences_block,
)
from probe.text.comparison_markdown import comparison_markdown
from probe.text.comparison_parts import (
    exchanges_block,
    losses_block,
    memory_block,
    operators_block,
    traffic_block,
    waterfall_block,
)
from probe.text.comparison_words import judgement_sentence, verdict_sentence
from probe.text.inert import inert

CHOOSE = (
    f"Choose up to {MOST_COMPARED - 1} runs under “Compare with” in the sidebar, or select several "
    "on the page Runs. The first run is the one that all others are held against."
)


def show(view: ViewState) -> None:
    """The page."""
    st.header("Compare", anchor=False)
    if not view.run or not view.runs:
        st.info(CHOOSE, icon=":material/compare_arrows:")
        return
    keys = (view.run, *view.runs)
    runs = [measured(view.shelf[key]) for key in keys]
    comparison = compare_runs([[run] for run in runs], history=history_beside(runs))
    if view.steps is not None:
        st.caption(f"Curves show only {view.steps.words}; all numbers are of all steps that count.")
    for pair in comparison.pairs:
        with st.container(border=True, gap="xxsmall"):
            st.markdown(f"**{inert(verdict_sentence(pair, material=comparison.material))}**")
            st.caption(inert(judgement_sentence(pair)))
    table(runs_block(comparison), key="runs", alt="The runs side by side")
    st.caption("  \n".join(inert(line) for line in names_block(comparison).below))
    _downloads(comparison)
    _all_runs(comparison, view, keys)
    for number, pair in enumerate(comparison.pairs):
        _pair(comparison, pair, view, number)


def _downloads(comparison: Comparison) -> None:
    """The same numbers for a pull request and for programs."""
    report = judge(comparison, ())
    with st.container(horizontal=True):
        st.download_button(
            "Markdown",
            comparison_markdown(comparison, report),
            file_name="comparison.md",
            mime="text/markdown",
            on_click="ignore",
            icon=":material/download:",
        )
        st.download_button(
            "JSON",
            json_text(comparison_json(comparison, report)),
            file_name="comparison.json",
            mime="application/json",
            on_click="ignore",
            icon=":material/download:",
        )


def _all_runs(comparison: Comparison, view: ViewState, keys: tuple[str, ...]) -> None:
    """All of them in one chart each."""
    read = [told(view.shelf[key]) for key in keys]
    series = [within(each.series, view.steps) for each in read]
    runs = [
        OverlaidRun(
            label=f"{side_label(place)} {each.run.name}", steps=of.steps, training=of.training
        )
        for place, (each, of) in enumerate(zip(read, series, strict=True))
    ]
    curves, settings = st.tabs(["Curves", "Settings"], on_change="rerun", key="all-runs")
    if curves.open:
        with curves:
            charts = overlay_charts(runs, along=view.along, smoothing=view.smoothing)
            if not draw_all(charts, view, key="overlay"):
                st.info("No run tells a loss, a norm, a scale or a step time.")
    if settings.open:
        with settings:
            draw_all(matrix_charts(comparison, runs), view, key="matrix")


def _pair(comparison: Comparison, pair: Pair, view: ViewState, number: int) -> None:
    """One run against the first."""
    st.subheader(f"{inert(pair.second)} against {inert(pair.first)}", anchor=False)
    table(measures_block(pair), key=f"measures-{number}")
    names = ("What differs", "Where the time went", "Memory and traffic", "Look next")
    differs, time, held, further = st.tabs(names, on_change="rerun", key=f"pair-{number}")
    if differs.open:
        with differs:
            table(differences_block(pair, whole=True), key=f"differences-{number}")
            table(losses_block(comparison, pair), key=f"losses-{number}")
    if time.open:
        with time:
            draw_all(time_charts(comparison, pair), view, key=f"time-{number}")
            table(waterfall_block(pair), key=f"waterfall-{number}")
            table(operators_block(pair), key=f"operators-{number}")
    if held.open:
        with held:
            draw_all(held_and_sent_charts(pair), view, key=f"held-{number}")
            table(memory_block(pair), key=f"memory-{number}")
            table(traffic_block(pair), key=f"traffic-{number}")
            table(exchanges_block(pair), key=f"exchanges-{number}")
    if further.open:
        with further:
            for block in (
                sentences_block("Keep in mind", pair.caveats),
                sentences_block("Look next", next_looks(pair)),
            ):
                table(block, key=f"{block.title}-{number}")
