"""A card where a view cannot be drawn: what is wrong and what to do, never an exception page."""

import traceback
from collections.abc import Iterator
from contextlib import contextmanager

import streamlit as st

from probe.errors import ProbeError
from probe.text.inert import inert

OWN_FAULT = "This view could not be drawn: a fault of our own."


@contextmanager
def guard(what: str) -> Iterator[None]:
    """Whatever goes wrong inside becomes a card; the rest of the page goes on."""
    try:
        yield
    except (ProbeError, OSError) as error:
        with st.container(border=True):
            st.warning(f"**{inert(what)}** cannot be shown.")
            st.text(str(error))
    except Exception as error:
        with st.container(border=True):
            st.error(OWN_FAULT)
            st.text(f"{what}: {type(error).__name__}: {error}"[:2000])
            with st.expander("Details to report"):
                st.code("".join(traceback.format_exception(error))[-8000:], language=None)
