"""Where to begin with a run: what stands out, its numbers, where its time went, what it was."""

import time

import streamlit as st

from app.drawing import draw_all, facts, metrics, table
from app.navigation import evidence_link
from app.state import ViewState
from probe.analyse.findings.finding import Finding
from probe.analyse.series.within import within
from probe.figures.of_run import step_charts
from probe.telling.whole_run import WholeRun
from probe.text.finding_list import finding_facts, gain_words, quiet_sentence
from probe.text.inert import inert
from probe.text.overview_cards import overview_cards
from probe.text.run_detail import identity
from probe.text.time_table import time_block

MOST_AT_ONCE = 3
"""Findings that stand above the numbers; the others wait behind a heading."""


def show(told: WholeRun, view: ViewState) -> None:
    """The page."""
    findings(told, view)
    cards(told)
    st.subheader("Time", anchor=False)
    draw_all(step_charts(told.facts, within(told.series, view.steps)), view, key="steps")
    table(time_block(told.facts), key="phases", alt="Phases of the counted steps")
    st.subheader("What it was", anchor=False)
    facts(identity(told.run, told.run.manifest, time.time_ns()), key="identity")


def findings(told: WholeRun, view: ViewState) -> None:
    """What stands out, the largest expected gain first."""
    found = told.findings
    if not found:
        counted = len(told.facts.counted)
        say = st.success if counted else st.info
        say(quiet_sentence(counted), icon=":material/check_circle:")
    for finding in found[:MOST_AT_ONCE]:
        _finding(finding, view)
    if rest := found[MOST_AT_ONCE:]:
        titles = f"{len(rest)} more finding{'s' if len(rest) > 1 else ''}, with smaller gains"
        with st.expander(titles):
            for finding in rest:
                _finding(finding, view)


def cards(told: WholeRun) -> None:
    """The numbers that people ask for first."""
    metrics(overview_cards(told.headline, told.facts))


def _finding(finding: Finding, view: ViewState) -> None:
    """Its sentence, what to try first, what that should bring, and where to look."""
    first = finding.changes[0]
    with st.container(border=True, gap="xsmall"):
        st.markdown(f":material/lightbulb: **{inert(finding.title)}**")
        st.markdown(
            f"Try **{inert(first.setting)}** – {inert(first.why)}  \n"
            f"Gain: {inert(gain_words(finding))}"
        )
        evidence_link(finding, view)
        with st.expander("Numbers", type="compact"):
            for name, text in finding_facts(finding):
                st.markdown(f"*{name}* {inert(text)}")
