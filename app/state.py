"""What a person looks at, and how it is kept in the address.

The page is the path; `run`, `runs`, `range`, `smoothing` and `axis` are query parameters. A link
restores what is looked at, and Back undoes it. Each is also a widget of the sidebar, which outlives
a change of page. Before the widgets are drawn, `choose` takes over what the address says anew, and
after them it writes into the address what they say. (Streamlit's own binding of a widget to a
parameter does not take over what a link of the same session says.)
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import streamlit as st

from probe.analyse.series.within import StepRange, parse_step_range
from probe.errors import UsageError
from probe.figures.overlay import Along
from probe.figures.theme import Mode

MOST_COMPARED = 8
MOST_SMOOTHING = 0.99
SAMPLES = "samples"
"""Whether the sample runs are shown, for want of others."""
PARAMETERS = ("run", "runs", "range", "smoothing", "axis")
_WRITTEN = "address"
"""The parameters as the last look wrote them: what differs came from a link or from Back."""

Parameters = Mapping[str, list[str]]


@dataclass(frozen=True, kw_only=True)
class ViewState:
    """What is looked at, and how."""

    page: str
    run: str
    """Key of the run; empty where there is none."""
    runs: tuple[str, ...]
    """Keys of the runs that it is compared with."""
    shelf: Mapping[str, Path]
    """Directories of all runs by their keys."""
    steps: StepRange | None
    """The steps to look at; None for all."""
    smoothing: float
    """Weight of the past in a smoothed line, from 0 (none) to below 1."""
    along: Along
    mode: Mode


def choose(shelf: Mapping[str, Path], *, page: str) -> ViewState:
    """The widgets of the sidebar and what they say."""
    _adopt(shelf)
    keys = list(shelf)
    with st.sidebar:
        run = st.selectbox("Run", keys, key="run", placeholder="no run yet")
        runs = st.multiselect(
            "Compare with",
            [key for key in keys if key != run],
            key="runs",
            max_selections=MOST_COMPARED - 1,
            placeholder="other runs",
        )
        written = st.text_input(
            "Steps",
            key="range",
            placeholder="all, or 120-180",
            help="Steps that charts show, each of them at full resolution.",
        )
        steps = _read_range(written)
        along = st.selectbox("Compare along", [item.value for item in Along], key="axis")
        smoothing = st.slider(
            "Smoothing",
            0.0,
            MOST_SMOOTHING,
            step=0.01,
            key="smoothing",
            help="Weight of the past in a smoothed line; the line itself stays, faint.",
        )
    view = ViewState(
        page=page,
        run=run or "",
        runs=tuple(runs),
        shelf=shelf,
        steps=steps,
        smoothing=smoothing,
        along=Along(along),
        mode=mode(),
    )
    _write(parameters_of(view))
    return view


def select_runs(keys: Sequence[str]) -> None:
    """Look at these runs: the first of them, compared with the others; nothing for none.

    Only before the widgets of the sidebar are drawn, hence in a callback."""
    if keys:
        st.session_state["run"] = keys[0]
        st.session_state["runs"] = list(keys[1:MOST_COMPARED])


def chosen_now() -> tuple[str, ...]:
    """Keys of the run and of those beside it, as they were chosen last."""
    run = st.session_state.get("run")
    return (run or "", *st.session_state.get("runs", ()))


def mode() -> Mode:
    """The ground that the browser shows."""
    return Mode.DARK if st.context.theme.type == "dark" else Mode.LIGHT


def parameters_of(view: ViewState) -> dict[str, list[str]]:
    """The query parameters that restore a view; what is as usual is left out."""
    parameters = {
        "run": [view.run] if view.run else [],
        "runs": list(view.runs),
        "range": [str(view.steps)] if view.steps else [],
        "smoothing": [f"{view.smoothing:g}"] if view.smoothing else [],
        "axis": [view.along.value] if view.along is not Along.STEP else [],
    }
    return {name: values for name, values in parameters.items() if values}


def link_parameters(
    view: ViewState, *, run: str | None = None, steps: StepRange | None = None
) -> dict[str, list[str]]:
    """Those of a link: what is looked at, but for the run and the steps to look at there."""
    kept = parameters_of(view)
    kept["range"] = [str(steps)] if steps else [""]  # An empty one undoes what was chosen.
    if run is not None:
        kept["run"] = [run]
        kept["runs"] = [key for key in view.runs if key != run] or [""]
    return kept


def _adopt(shelf: Mapping[str, Path]) -> None:
    """Take over what the address says anew; what a stranger's link says wrong is left out."""
    chosen: Any = st.session_state
    told = {name: st.query_params.get_all(name) for name in PARAMETERS if name in st.query_params}
    last: Parameters = chosen.get(_WRITTEN, {})
    new = {name: values for name, values in told.items() if values != last.get(name)}
    if "run" in new:
        _warn_of_unknown(new["run"], shelf)
        chosen["run"] = new["run"][-1]
    if "runs" in new:
        wanted = [key for key in dict.fromkeys(new["runs"]) if key]
        _warn_of_unknown(wanted, shelf)
        chosen["runs"] = wanted[: MOST_COMPARED - 1]
    if "range" in new:
        chosen["range"] = new["range"][-1]
    if "axis" in new and new["axis"][-1] in {item.value for item in Along}:
        chosen["axis"] = new["axis"][-1]
    if "smoothing" in new:
        chosen["smoothing"] = _share(new["smoothing"][-1])
    # A run may vanish while it is looked at.
    if chosen.get("run") not in shelf:
        chosen["run"] = next(iter(shelf), None)
    chosen["runs"] = [
        key for key in chosen.get("runs", []) if key in shelf and key != chosen["run"]
    ]


def _write(parameters: Parameters) -> None:
    shown = {name: st.query_params.get_all(name) for name in st.query_params}
    if shown != parameters:
        st.query_params.from_dict(parameters)
    st.session_state[_WRITTEN] = parameters


def _share(text: str) -> float:
    try:
        share = round(float(text), 2)
    except (ValueError, OverflowError):
        return 0.0
    return share if 0 <= share <= MOST_SMOOTHING else 0.0


def _read_range(written: str) -> StepRange | None:
    try:
        return parse_step_range(written)
    except UsageError as error:
        st.warning(str(error))
        return None


def _warn_of_unknown(keys: list[str], shelf: Mapping[str, Path]) -> None:
    """A link to a run that is not here shows another one, and must say so."""
    missing = [key for key in keys if key and key not in shelf]
    if missing:
        st.warning("The link speaks of runs that are not in these folders:")
        st.text("\n".join(missing)[:2000])
