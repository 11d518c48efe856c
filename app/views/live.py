"""A run in progress: where it stands now, drawn again as it goes on."""

import time

import streamlit as st

from app.drawing import metrics, words_and_data
from app.heading import status_line
from app.live_chart import bring_library, draw_live
from app.loading import follower, opened
from app.state import ViewState
from probe.figures.scale import training_story
from probe.figures.steps import phases_by_step
from probe.read.run import Run
from probe.schema.vocabulary import RunStatus
from probe.telling.following import Followed
from probe.text.inert import inert
from probe.text.live_cards import freshness, live_cards

EVERY_S = 2.0
EVERY_QUIET_S = 10.0
"""Where nothing moves: a stalled run, or one of which it is not known."""


def show(view: ViewState) -> None:
    """The page."""
    st.header(f"Live · {inert(view.run, limit=60)}", anchor=False)
    if not view.run:
        st.info("There is no run here yet; the page Runs says how to record one.")
        return
    bring_library()
    if view.steps is not None:
        st.caption(f"This page shows every step; the other pages show only {view.steps.words}.")
    status = opened(view.shelf[view.run]).verdict.status
    paused = st.toggle("Pause", key="paused", disabled=not _moves(status))
    paused = paused and _moves(status)
    every = None if paused or not _moves(status) else _pace(status)
    st.fragment(_follow, run_every=every)(view, status=status, paused=paused)


def _moves(status: RunStatus) -> bool:
    return status in (RunStatus.RUNNING, RunStatus.STALLED, RunStatus.UNKNOWN)


def _pace(status: RunStatus) -> float:
    return EVERY_S if status is RunStatus.RUNNING else EVERY_QUIET_S


def _follow(view: ViewState, *, status: RunStatus, paused: bool) -> None:
    """Everything that changes while the run goes on."""
    path = view.shelf[view.run]
    run = opened(path)
    if run.verdict.status is not status and not paused:
        st.rerun()
    followed = follower(path).look()
    status_line(run.verdict)
    st.caption(_standing(followed, run, paused=paused))
    metrics(live_cards(followed, run.manifest))
    if not len(followed.steps):
        st.info("No step has ended yet; charts appear with the first.")
        return
    version = str(followed.version)
    for name, figure in (
        ("story", training_story(followed.training)),
        ("phases", phases_by_step(followed.steps)),
    ):
        draw_live(figure, name=f"{view.run}-{name}", version=version, mode=view.mode)
        words_and_data(figure, name=f"live-{view.run}-{name}")


def _standing(followed: Followed, run: Run, *, paused: bool) -> str:
    if paused:
        return "Paused: what the run writes now is drawn later."
    if not _moves(run.verdict.status):
        return "The run is over: nothing more will come."
    return freshness(followed, run, now_ns=time.time_ns())
