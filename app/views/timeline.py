"""The profiled window: ranks as lanes, its breakdown, its operators and kernels, its files."""

from functools import partial

import streamlit as st

from app.drawing import draw_all, table
from app.loading import window_of
from app.state import ViewState
from probe.figures.of_run import window_charts
from probe.read.run_traces import TraceFile, find_traces
from probe.telling.trace_files import merged_trace, raw_trace
from probe.telling.whole_run import ProfiledWindow, WholeRun
from probe.text.definitions import DEFINITIONS
from probe.text.operators_block import kernels_block, operators_block
from probe.units import format_bytes

MOST_ROWS = 200
MOST_FILES = 64
NONE = "No window of this run was profiled. This records one of two steps:"
TOO_DEAR = (
    "The traces of this run were never distilled, because it did not end well, and a page does not "
    "read them as they are. `probe show RUN --trace` does, and takes its time."
)


def show(told: WholeRun, view: ViewState) -> None:
    """The page."""
    files = find_traces(told.run.path)
    if not files:
        st.info(NONE, icon=":material/info:")
        st.code("probe run train.py --profile-steps 20:22", language="bash")
        return
    window = window_of(told)
    if window.left_out:
        st.info(TOO_DEAR)
    st.subheader("Lanes and breakdown", anchor=False, help=DEFINITIONS["breakdown"])
    draw_all(window_charts(window.lanes, window.breakdowns), view, key="window")
    _what_ran(window, view)
    st.subheader("Files", anchor=False)
    _files(told, files)


def _what_ran(window: ProfiledWindow, view: ViewState) -> None:
    """Operators and kernels of one rank: those of several have no common time."""
    told = {f"rank {each.rank}": each for each in window.ranks}
    if not told:
        return
    st.subheader("What ran", anchor=False, help=DEFINITIONS["own time of an operator"])
    one = window.lowest
    if len(told) > 1:
        one = told[st.selectbox("Rank", list(told), key=f"window-rank-{view.run}", width=240)]
    for name, block in (
        ("kernels", kernels_block(one.kernels, rank=one.rank, most=MOST_ROWS)),
        ("operators", operators_block(one.operators, rank=one.rank, most=MOST_ROWS)),
    ):
        if block.rows:
            table(block, key=name)


def _files(told: WholeRun, files: list[TraceFile]) -> None:
    """What can be taken away, and what opens it."""
    st.caption(
        "ui.perfetto.dev and chrome://tracing open these files; Perfetto works without an upload: "
        "the file stays in the browser."
    )
    st.download_button(
        "All ranks in one file",
        partial(merged_trace, told.run),
        file_name="merged.json.gz",
        mime="application/gzip",
        on_click="ignore",
        key="merged",
        icon=":material/download:",
    )
    with st.container(horizontal=True):
        for file in files[:MOST_FILES]:
            st.download_button(
                f"rank {file.rank}, step {file.step} ({format_bytes(file.size_bytes)})",
                partial(raw_trace, told.run, file),
                file_name=f"rank_{file.rank:05d}_{file.name}",
                on_click="ignore",
                key=f"raw-{file.rank}-{file.step}",
            )
