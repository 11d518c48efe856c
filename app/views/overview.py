"""Where to begin with a run: what stands out, its numbers, where its time went, what it was."""

import time

import streamlit as st

from app.drawing import draw_all, metric, table
from app.navigation import evidence_link
from app.state import ViewState
from probe.analyse.findings.finding import Finding
from probe.analyse.series.within import within
from probe.figures.of_run import step_charts
from probe.telling.whole_run import WholeRun
from probe.text.finding_list import finding_facts, quiet_sentence
from probe.text.inert import inert
from probe.text.overview_cards import overview_cards
from probe.text.run_detail import identity
from probe.text.time_table import time_block

CARDS_IN_A_ROW = 4


def show(told: WholeRun, view: ViewState) -> None:
    """The page."""
    findings(told, view)
    cards(told)
    st.subheader("Where the time went", anchor=False)
    draw_all(step_charts(told.facts, within(told.series, view.steps)), view, key="steps")
    table(time_block(told.facts), key="phases", alt="Phases of the counted steps")
    st.subheader("What it was", anchor=False)
    for name, text in identity(told.run, told.run.manifest, time.time_ns()):
        if text:
            st.markdown(f"**{name}** {inert(text, limit=600)}")


def findings(told: WholeRun, view: ViewState) -> None:
    """What stands out, the largest expected gain first."""
    if not told.findings:
        st.success(quiet_sentence(len(told.facts.counted)), icon=":material/check_circle:")
    for finding in told.findings:
        _finding(finding, view)


def cards(told: WholeRun) -> None:
    """The numbers that people ask for first."""
    shown = overview_cards(told.headline, told.facts)
    for start in range(0, len(shown), CARDS_IN_A_ROW):
        row = shown[start : start + CARDS_IN_A_ROW]
        for place, card in zip(st.columns(CARDS_IN_A_ROW), row, strict=False):
            with place:
                metric(card.name, card.value, remark=card.remark)


def _finding(finding: Finding, view: ViewState) -> None:
    with st.container(border=True):
        st.markdown(f"**{inert(finding.title)}**")
        for name, text in finding_facts(finding):
            if name != "look":
                st.markdown(f"*{name}* {inert(text)}")
        evidence_link(finding, view)
