"""What ranks exchange, what it costs, and who waits for whom."""

import streamlit as st

from app.drawing import draw_all, table
from app.state import ViewState
from probe.analyse.series.within import within
from probe.figures.of_run import exchange_charts, rank_charts
from probe.telling.whole_run import WholeRun
from probe.text.communication_table import communication_block
from probe.text.definitions import DEFINITIONS
from probe.text.rank_table import rank_block

MOST_ROWS = 1000


def show(told: WholeRun, view: ViewState) -> None:
    """The page."""
    block = communication_block(told.facts, most=MOST_ROWS)
    st.subheader(
        "Operations in a usual step", anchor=False, help=DEFINITIONS["exposed communication"]
    )
    if block.rows:
        table(block, key="operations", alt="Collectives by operation and phase")
        st.caption(DEFINITIONS["bus bandwidth"])
        draw_all(exchange_charts(told.facts), view, key="exchange")
    else:
        st.info("Nothing was exchanged between ranks, or nobody recorded it.")
    st.subheader("Ranks", anchor=False, help=DEFINITIONS["waiting"])
    ranks = rank_block(told.facts)
    if not ranks.rows:
        st.caption("One rank waits for nobody.")
        return
    draw_all(rank_charts(told.facts, within(told.series, view.steps)), view, key="ranks")
    table(ranks, key="ranks", alt="Ranks by the time in which they wait for nobody")
