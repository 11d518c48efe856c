"""Charts, tables and numbers on a page: each with its words, its data and its definition."""

import math
from collections.abc import Iterable, Sequence
from html import unescape
from typing import Any

import pandas as pd
import streamlit as st

from app.state import ViewState
from probe.figures.chart import Chart
from probe.figures.figure_table import figure_csv
from probe.figures.theme import alternative_of, caption_of, in_mode, title_of
from probe.text.column_definitions import definition_of
from probe.text.comparison_blocks import Block
from probe.text.definitions import DEFINITIONS
from probe.text.inert import inert
from probe.text.overview_cards import Card
from probe.text.sorting import numbers_in
from probe.units import MISSING

CARD_PIXELS = 240
CARDS = "cards"
"""The container of the cards; the page's style lets them grow until they fill their line."""
_CONFIG = {
    "displaylogo": False,
    "modeBarButtonsToRemove": ["select2d", "lasso2d", "autoScale2d"],
    "toImageButtonOptions": {"scale": 2},
}


def draw(figure: Any, view: ViewState, *, key: str) -> None:
    """A figure, what it says in words, how many points it draws, and its data."""
    name = f"{view.page}-{view.run}-{key}"
    st.plotly_chart(
        in_mode(figure, view.mode),
        theme=None,
        key=name,
        config=_CONFIG,
        alt=unescape(alternative_of(figure)),
    )
    words_and_data(figure, name=name)


def words_and_data(figure: Any, *, name: str) -> None:
    """What stands below a chart: how many points it draws, and on demand its words and data."""
    if caption := caption_of(figure):
        st.caption(inert(unescape(caption)))
    with st.expander(
        "Data and words", key=f"{name}-data", type="compact", on_change="rerun"
    ) as data:
        if data.open:
            st.text(unescape(alternative_of(figure)))
            st.download_button(
                "Download as CSV",
                figure_csv(figure),
                file_name=f"{unescape(title_of(figure)).replace(' ', '_').lower()}.csv",
                mime="text/csv",
                key=f"{name}-csv",
                on_click="ignore",
            )


def draw_all(charts: Iterable[Chart], view: ViewState, *, key: str) -> int:
    """Charts in their order, two narrow ones side by side; how many there are."""
    left = list(enumerate(charts, start=1))
    count = len(left)
    while left:
        row = left[:2] if not any(chart.wide for _, chart in left[:2]) else left[:1]
        del left[: len(row)]
        # A narrow one that is alone has the whole width: half a page of nothing helps nobody.
        for place, (number, chart) in zip(_places(len(row)), row, strict=True):
            with place:
                draw(chart.figure, view, key=f"{key}-{number}")
    return count


def _places(count: int) -> Sequence[Any]:
    return (st.container(),) if count == 1 else st.columns(count, gap="large")


def table(block: Block, *, key: str, alt: str = "") -> None:
    """A block as a table that can be sorted, searched and taken away as CSV."""
    if block.title:
        st.markdown(f"**{inert(block.title)}**")
    if block.rows:
        st.dataframe(
            _sortable(block),
            hide_index=True,
            lazy=False,
            placeholder=MISSING,
            key=key,
            alt=alt or block.title or key,
            column_config={
                str(place): st.column_config.Column(
                    heading,
                    help=definition_of(heading) or None,
                    alignment="right" if place in block.right else "left",
                )
                for place, heading in enumerate(block.headings)
            },
        )
    if block.below:
        st.caption("  \n".join(map(inert, block.below)))


def _sortable(block: Block) -> Any:
    """The rows under numbered columns: a column of numbers sorts by them and shows its texts."""
    shown: dict[str, dict[float, str]] = {}
    columns: dict[str, Sequence[Any]] = {}
    for place, texts in enumerate(zip(*block.rows, strict=True)):
        values = numbers_in(texts)
        # A value that is no number would be shown as one that is missing.
        if values is None or any(value != value for value in values if value is not None):
            columns[str(place)] = texts
            continue
        columns[str(place)] = [math.nan if value is None else value for value in values]
        shown[str(place)] = {
            value: text for value, text in zip(values, texts, strict=True) if value is not None
        }
    table = pd.DataFrame(columns)
    written: dict[Any, Any] = {name: texts.__getitem__ for name, texts in shown.items()}
    return table.style.format(written, na_rep=MISSING)


def facts(told: Iterable[tuple[str, str]], *, key: str) -> None:
    """Names and texts below each other; a name without a text is left out."""
    rows = [(name, text) for name, text in told if text]
    if rows:
        names, texts = zip(*rows, strict=True)
        st.dataframe(
            {"what": names, "value": texts},
            hide_index=True,
            key=key,
            alt="; ".join(names),
            column_config={"what": st.column_config.TextColumn("what", width="small")},
        )


def metrics(cards: Sequence[Card]) -> None:
    """Numbers side by side, as many as there is room for."""
    with st.container(horizontal=True, gap="small", key=CARDS):
        for card in cards:
            metric(card.name, card.value, remark=card.remark)


def metric(name: str, value: str, *, remark: str = "", definition: str = "") -> None:
    """A number with what it means behind its question mark and what it is beside below it."""
    meaning = DEFINITIONS[definition or name]
    with st.container(border=True, height="stretch", gap="xxsmall", width=CARD_PIXELS):
        st.metric(inert(name), value, help=meaning)
        if remark:
            st.caption(inert(remark))
