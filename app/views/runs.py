"""All runs of the folders: what each is and how it stands; choosing, tagging, a first recording."""

from collections.abc import Sequence
from typing import Any

import streamlit as st

from app.loading import ledger, remark_at, samples_folder
from app.navigation import link
from app.state import SAMPLES, ViewState, chosen_now, select_runs
from probe.remark import remarks_of, undo_remark, write_remark
from probe.schema.documents import Remark
from probe.text.definitions import DEFINITIONS
from probe.text.inert import inert
from probe.text.run_table import fits, run_columns
from probe.units import MISSING

BUDGET_S = 0.4
"""Reading of numbers before the table is drawn; the rest comes while it is looked at."""
MOST_UNSCROLLED = 14
TABLE = "runs-table"
_SHOWN = "runs-shown"
_UNREAD = "runs-unread"
_LINKS = (("overview", "Overview"), ("compare", "Compare"))


def show(view: ViewState) -> None:
    """The page."""
    st.header("Runs", anchor=False)
    if not view.shelf:
        nothing_yet()
        return
    list_runs(view)
    if view.run:
        remarks(view)


def nothing_yet() -> None:
    """How to get a first run."""
    st.info("There is no run here yet. This records one:", icon=":material/info:")
    st.code("probe run train.py --stage 2 --bf16", language="bash")
    samples = samples_folder()
    if samples is not None:
        st.button("Show the sample runs", on_click=_show_samples, icon=":material/science:")


def _show_samples() -> None:
    st.session_state[SAMPLES] = True


def list_runs(view: ViewState) -> None:
    """Search and table; as long as numbers are missing, the table comes again with more of them."""
    words = st.text_input(
        "Search",
        key="search",
        placeholder="name, status, precision, stage3, tag or note",
        icon=":material/search:",
    )
    if st.session_state.get(_UNREAD, True):
        st.fragment(_table, run_every=1.0)(view, words)
    else:
        _table(view, words)


def _table(view: ViewState, words: str) -> None:
    found = ledger().rows(view.shelf, budget_s=BUDGET_S)
    rows = [row for row in found.rows if fits(row, words)]
    keys = [row.key for row in rows]
    st.session_state[_SHOWN] = keys
    chosen = [place for place, key in enumerate(keys) if key in (view.run, *view.runs)]
    left = f"; numbers of {found.unread:,} are being read …" if found.unread else ""
    st.caption(
        f"{len(rows):,} of {len(found.rows):,} runs{left}. Select one to look at it, or up to "
        "eight to compare them."
    )
    st.dataframe(
        run_columns(rows),
        hide_index=True,
        lazy=False,
        placeholder=MISSING,
        key=TABLE,
        height="content" if len(rows) <= MOST_UNSCROLLED else 520,
        on_select=_select,
        selection_mode="multi-row",
        selection_default={"selection": {"rows": chosen, "columns": []}},
        column_config=_columns(),
        alt=f"Table of {len(rows)} runs",
    )
    was_unread = st.session_state.get(_UNREAD, True)
    st.session_state[_UNREAD] = bool(found.unread)
    # A table that comes again on its own must not keep the page behind what it found or was told.
    if (was_unread and not found.unread) or chosen_now() != (view.run, *view.runs):
        st.rerun()


def _select() -> None:
    """The rows that are selected become the runs that are looked at."""
    places: Sequence[int] = st.session_state[TABLE].selection.rows
    keys: Sequence[str] = st.session_state[_SHOWN]
    select_runs([keys[place] for place in places if place < len(keys)])


def remarks(view: ViewState) -> None:
    """Links to the run that is looked at, and its tags and notes to be changed."""
    path = view.shelf[view.run]
    st.subheader(inert(view.run, limit=60), anchor=False)
    with st.container(horizontal=True):
        for page, label in _LINKS:
            link(page, label, view, run=view.run)
    held = remark_at(path)
    with st.form(f"remarks-{view.run}", border=False):
        tags = st.text_input("Tags, parted by commas", value=", ".join(held.tags))
        notes = st.text_area("Notes", value=held.notes, height=100)
        with st.container(horizontal=True):
            saved = st.form_submit_button("Save", icon=":material/save:")
            undone = st.form_submit_button(
                "Undo", icon=":material/undo:", disabled=not remarks_of(path).before
            )
    if saved:
        names = [tag.strip() for tag in tags.split(",")]
        write_remark(path, Remark(tags=names, notes=notes))
        st.rerun()
    if undone:
        undo_remark(path)
        st.rerun()


def _columns() -> dict[str, Any]:
    column = st.column_config
    return {
        "run": column.TextColumn("run", pinned=True, width="medium"),
        "status": column.TextColumn("status", help=DEFINITIONS["status"]),
        "health": column.TextColumn("health", width=70, help=DEFINITIONS["health"]),
        "stage": column.NumberColumn("stage", format="%d", help=DEFINITIONS["stage"]),
        "offload": column.TextColumn("offload", help=DEFINITIONS["offload"]),
        "world": column.NumberColumn("world", format="%d", help=DEFINITIONS["world"]),
        "ms/step": column.NumberColumn("ms/step", format="%.1f", help=DEFINITIONS["step time"]),
        "peak memory": column.NumberColumn(
            "peak memory", format="bytes", help=DEFINITIONS["peak memory"]
        ),
        "skips": column.NumberColumn("skips", format="%d", help=DEFINITIONS["skipped steps"]),
        "started": column.DatetimeColumn("age", format="distance", width=130),
    }
