"""One folder of runs for all tests of pages, and caches that never outlive a test."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import streamlit as st
from shown_runs import Kind, record_every_kind


@pytest.fixture(autouse=True)
def _no_memory() -> Iterator[None]:
    """Streamlit's caches are shared by everything in a process."""
    st.cache_data.clear()
    st.cache_resource.clear()
    yield


@pytest.fixture(autouse=True)
def _main_stays_main() -> Iterator[None]:
    """A page that is run takes the place of `__main__`, which spawned processes would run again."""
    main = sys.modules["__main__"]
    yield
    sys.modules["__main__"] = main


@pytest.fixture
def every_kind(recorded_kinds: Path) -> Path:
    """The same folder, with the live run alive at this moment."""
    for heartbeat in (recorded_kinds / Kind.LIVE.value).glob("rank_*/heartbeat"):
        heartbeat.touch()
    return recorded_kinds


@pytest.fixture(scope="session")
def recorded_kinds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run of every kind; only read."""
    return record_every_kind(tmp_path_factory.mktemp("shown") / "runs")
