"""What moves between device, host and disk, and whether anybody waits for it."""

import streamlit as st

from app.drawing import draw_all, facts, table
from app.state import ViewState
from probe.analyse.series.within import within
from probe.figures.of_run import offload_charts
from probe.telling.whole_run import WholeRun
from probe.text.definitions import DEFINITIONS
from probe.text.offload_table import offload_block


def show(told: WholeRun, view: ViewState) -> None:
    """The page."""
    config = told.run.manifest.config
    st.subheader("What rests where", anchor=False, help=DEFINITIONS["offload"])
    facts(
        (
            ("optimizer states", config.offload_optimizer.value),
            ("parameters", config.offload_params.value),
        ),
        key="places",
    )
    if told.facts.offload is None:
        st.info(
            "Nothing moved between device, host and disk. `--offload optimizer --offload-to disk` "
            "lets states rest there."
        )
        return
    table(offload_block(told.facts), key="routes", alt="Transfers by what moved and where")
    draw_all(offload_charts(told.facts, within(told.series, view.steps)), view, key="offload")
