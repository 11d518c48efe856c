"""All runs of the folders, and how to get a first one."""

import streamlit as st

from app.navigation import link
from app.state import ViewState
from probe.text.inert import inert


def show(view: ViewState) -> None:
    """The page."""
    st.header("Runs", anchor=False)
    if not view.shelf:
        st.info("There is no run here yet. This records one and looks at it:")
        st.code("probe run train.py --stage 2 --bf16\nprobe app runs", language="bash")
        return
    for key in view.shelf:
        link("overview", inert(key), view, run=key)
