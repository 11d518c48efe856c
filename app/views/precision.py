"""What the loss scale did and why, where overflows began, how values fit into 16 bits."""

import streamlit as st

from app.drawing import draw_all, facts, table
from app.state import ViewState
from probe.analyse.series.within import within
from probe.figures.of_run import precision_charts
from probe.telling.whole_run import WholeRun
from probe.text.definitions import DEFINITIONS
from probe.text.overflow_table import overflow_block
from probe.text.precision_table import precision_facts

NOTHING = "Neither loss, nor gradient norm, nor loss scale was recorded in these steps."


def show(told: WholeRun, view: ViewState) -> None:
    """The page."""
    series = within(told.series, view.steps)
    st.subheader("Loss, norm and scale", anchor=False, help=DEFINITIONS["loss scale"])
    facts(precision_facts(told.facts), key="precision")
    if not draw_all(precision_charts(told.facts, series, steps=view.steps), view, key="precision"):
        st.info(NOTHING)
    st.subheader("Overflows", anchor=False, help=DEFINITIONS["overflow"])
    block = overflow_block(series.overflows)
    if block.rows:
        table(block, key="overflows")
    else:
        st.success("Nothing overflowed in these steps.", icon=":material/check_circle:")
