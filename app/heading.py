"""What stands above every page of a run: which run it is, how it stands, what is wrong with it."""

from dataclasses import replace
from typing import Literal

import streamlit as st

from app.state import ViewState
from probe.read.status import Verdict
from probe.schema.vocabulary import RunStatus, Severity
from probe.telling.whole_run import WholeRun
from probe.text.inert import inert
from probe.text.problem_list import describe_problems, place_of

_Colour = Literal["red", "orange", "blue", "green", "gray"]

_COLOURS: dict[RunStatus, _Colour] = {
    RunStatus.RUNNING: "blue",
    RunStatus.FINISHED: "green",
    RunStatus.FAILED: "red",
    RunStatus.KILLED: "red",
    RunStatus.INTERRUPTED: "orange",
    RunStatus.STALLED: "orange",
    RunStatus.UNKNOWN: "gray",
}
_ICONS = {
    RunStatus.RUNNING: ":material/play_circle:",
    RunStatus.FINISHED: ":material/check_circle:",
    RunStatus.FAILED: ":material/cancel:",
    RunStatus.KILLED: ":material/cancel:",
    RunStatus.INTERRUPTED: ":material/stop_circle:",
    RunStatus.STALLED: ":material/hourglass_disabled:",
    RunStatus.UNKNOWN: ":material/help:",
}
MOST_SHOWN = 50
OF_A_RANGE = (
    "Charts along steps and the list of overflows show only {}; all other numbers are of the whole "
    "run."
)


def run_heading(told: WholeRun, view: ViewState, *, title: str) -> ViewState:
    """Draws the heading; gives back the view with steps that the run has."""
    verdict = told.run.verdict
    st.header(f"{title} · {inert(told.run.name, limit=60)}", anchor=False)
    status_line(verdict)
    _problems(told)
    return _checked(told, view)


def status_line(verdict: Verdict) -> None:
    """What became of a run, and why that is concluded."""
    with st.container(horizontal=True, vertical_alignment="center"):
        st.badge(verdict.status.value, icon=_ICONS[verdict.status], color=_COLOURS[verdict.status])
        st.caption(inert(verdict.why))


def _problems(told: WholeRun) -> None:
    if not told.problems:
        return
    worst = any(item.severity is Severity.ERROR for item in told.problems)
    icon = ":material/error:" if worst else ":material/warning:"
    with st.expander(f"{describe_problems(told.problems)} with this run", icon=icon):
        st.dataframe(
            {
                "severity": [item.severity.value for item in told.problems[:MOST_SHOWN]],
                "where": [place_of(item) for item in told.problems[:MOST_SHOWN]],
                "what": [item.what for item in told.problems[:MOST_SHOWN]],
                "what to do": [item.hint for item in told.problems[:MOST_SHOWN]],
            },
            hide_index=True,
            alt="Problems of the run",
        )
        if len(told.problems) > MOST_SHOWN:
            st.caption(f"… and {len(told.problems) - MOST_SHOWN:,} more; `probe doctor` lists all.")


def _checked(told: WholeRun, view: ViewState) -> ViewState:
    """A range that holds no recorded step shows all steps, and says so."""
    steps = told.series.steps.step
    if view.steps is None or not len(steps):
        return replace(view, steps=None)
    if ((steps >= view.steps.first) & (steps <= view.steps.last)).any():
        st.caption(OF_A_RANGE.format(view.steps.words))
        return view
    st.warning(
        f"No step from {view.steps.first:,} to {view.steps.last:,} was recorded; all are shown."
    )
    return replace(view, steps=None)
