"""What ranks exchange, what it costs, and who waits for whom."""

import streamlit as st

from app.drawing import draw_all, table
from app.state import ViewState
from probe.analyse.series.within import within
from probe.figures.of_run import communication_charts
from probe.telling.whole_run import WholeRun
from probe.text.communication_table import communication_block
from probe.text.definitions import DEFINITIONS


def show(told: WholeRun, view: ViewState) -> None:
    """The page."""
    block = communication_block(told.facts)
    st.subheader(
        "Operations in a usual step", anchor=False, help=DEFINITIONS["exposed communication"]
    )
    if block.rows:
        table(block, key="operations", alt="Collectives by operation and phase")
        st.caption(DEFINITIONS["bus bandwidth"])
    else:
        st.info("Nothing was exchanged between ranks, or nobody recorded it.")
    charts = communication_charts(told.facts, within(told.series, view.steps))
    st.subheader("Ranks", anchor=False, help=DEFINITIONS["waiting"])
    if not draw_all(charts, view, key="communication"):
        st.caption("One rank waits for nobody.")
