"""Links between pages. `main` says which there are; views name what they want to show."""

from collections.abc import Mapping
from typing import Any

import streamlit as st

from app.state import ViewState, link_parameters
from probe.analyse.findings.finding import Finding, View
from probe.analyse.series.within import StepRange
from probe.text.finding_list import link_words

_PAGES = "pages"
_EVIDENCE = "evidence"


def remember(pages: Mapping[str, Any], evidence: Mapping[View, str]) -> None:
    """Keep, for this session, the pages by name and the page that holds each kind of evidence."""
    st.session_state[_PAGES] = dict(pages)
    st.session_state[_EVIDENCE] = dict(evidence)


def link(
    name: str,
    label: str,
    view: ViewState,
    *,
    run: str | None = None,
    steps: StepRange | None = None,
    icon: str | None = None,
) -> None:
    """A link to a page by its name, with the run and the steps to look at there."""
    page = st.session_state[_PAGES].get(name)
    if page is not None:
        parameters = link_parameters(view, run=run, steps=steps)
        st.page_link(page, label=label, icon=icon, query_params=parameters)


def evidence_link(finding: Finding, view: ViewState) -> None:
    """A link to the view and the steps that show what a finding speaks of."""
    where = finding.link
    name = st.session_state[_EVIDENCE].get(where.view)
    if name is None:
        st.caption(f"Evidence: {link_words(where)}")
        return
    steps = None
    if where.first_step is not None and where.last_step is not None:
        steps = StepRange(first=where.first_step, last=where.last_step)
    link(name, f"Evidence: {link_words(where)}", view, steps=steps, icon=":material/search:")
