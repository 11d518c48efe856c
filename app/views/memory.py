"""What memory was held for: the peak beside its closed form, and every rank over time."""

import streamlit as st

from app.drawing import draw_all, table
from app.state import ViewState
from probe.analyse.series.within import within
from probe.figures.of_run import ledger_charts, peak_charts
from probe.telling.whole_run import WholeRun
from probe.text.definitions import DEFINITIONS
from probe.text.memory_table import memory_block

FULLEST = "the fullest"


def show(told: WholeRun, view: ViewState) -> None:
    """The page."""
    use = told.facts.memory
    if use is None:
        st.info("No memory was recorded in this run.")
        return
    st.subheader("At the peak", anchor=False, help=DEFINITIONS["peak memory"])
    table(memory_block(told.facts), key="memory", alt="Memory at the peak beside the closed form")
    st.caption(DEFINITIONS["closed form"])
    draw_all(peak_charts(told.facts, told.series), view, key="peak")
    st.subheader("Over time", anchor=False, help=DEFINITIONS["ledger"])
    rank = None
    if len(told.series.memory) > 1:
        named: dict[str, int | None] = {f"{FULLEST} (rank {use.peak.rank})": None}
        named |= {f"rank {number}": number for number in sorted(told.series.memory)}
        chosen = st.selectbox("Rank", list(named), key=f"memory-rank-{view.run}", width=240)
        rank = named[chosen]
    charts = ledger_charts(told.facts, within(told.series, view.steps), rank=rank)
    if not draw_all(charts, view, key="ledger"):
        st.info("This rank tells of no memory in these steps.")
