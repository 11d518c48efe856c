"""`streamlit run app/main.py [-- RUNS]`, or `probe app [RUNS]`: the dashboard."""

import sys
from functools import partial
from pathlib import Path

import streamlit as st

from app import navigation
from app.catalogue import PAGES, Page, RunPage
from app.drawing import CARD_PIXELS, CARDS
from app.guarding import guard
from app.heading import run_heading
from app.loading import folders_of, runs_below, samples_folder, told
from app.state import SAMPLES, ViewState, choose

START = "start"
STYLE = f"""<style>
.stMainBlockContainer {{ padding-top: 3.5rem; padding-bottom: 3rem; }}
@media (min-width: 1024px) {{
  .stMainBlockContainer {{ padding-left: 3rem; padding-right: 3rem; }}
}}
.st-key-{CARDS} > * {{ flex: 1 1 {CARD_PIXELS}px !important; max-width: none !important; }}
.st-key-{CARDS} > * > * {{ width: 100% !important; }}
</style>"""
ICON = Path(__file__).parent / "icon.svg"


def draw_page(page: Page, chosen: list[ViewState]) -> None:
    """The page, or a card that says why it cannot be drawn."""
    [view] = chosen
    if not isinstance(page, RunPage):
        with guard(page.title):
            page.show(view)
        return
    with guard(view.run or page.title):
        if not view.run:
            st.info("There is no run here yet; the page Runs says how to record one.")
            return
        run = told(view.shelf[view.run])
        page.show(run, run_heading(run, view, title=page.title))


def main() -> None:
    """Navigation, sidebar and the chosen page."""
    # An icon of our own: Streamlit's are asked from the network.
    st.set_page_config(page_title="ZeroProbe", page_icon=str(ICON), layout="wide")
    st.html(STYLE)
    chosen: list[ViewState] = []
    pages = {
        page.name: st.Page(
            partial(draw_page, page, chosen),
            title=page.title,
            icon=page.icon,
            url_path=START if page is PAGES[0] else page.name,
            default=page is PAGES[0],
        )
        for page in PAGES
    }
    # The first page is the root of the address; a link that spells its name is right all the same.
    named_start = st.Page(
        partial(draw_page, PAGES[0], chosen),
        title=PAGES[0].title,
        url_path=PAGES[0].name,
        visibility="hidden",
    )
    evidence = {
        view: page.name for page in PAGES if isinstance(page, RunPage) for view in page.shows
    }
    navigation.remember(pages, evidence)
    current = st.navigation([*pages.values(), named_start])
    # Widgets that stand before the page belong to all pages: what they say outlives a change of it.
    name = next((name for name, page in pages.items() if page is current), PAGES[0].name)
    folders = folders_of(sys.argv[1:])
    samples = samples_folder() if st.session_state.get(SAMPLES) else None
    chosen.append(choose(runs_below((*folders, *filter(None, [samples]))), page=name))
    current.run()


main()
