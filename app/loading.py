"""Runs as pages take them: the only place that caches, and what every cache is keyed by.

A cached value is shared by all sessions, so it is never changed. Its key is the run's path and
its fingerprint (name, inode, size and time of every file, and the format version), so that a run
that grew is read anew, and one that did not is read once. The status of a run depends on the time
of day and is concluded at every look, from its small documents.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import streamlit as st

from probe.analyse.compare.history import EqualRun
from probe.analyse.compare.measured_run import MeasuredRun
from probe.read.discovery import run_paths
from probe.read.documents import read_manifest
from probe.read.fingerprint import fingerprint
from probe.read.run import Run
from probe.remark import remark_of
from probe.schema.documents import Manifest, Remark
from probe.telling.equal_runs import history_of
from probe.telling.following import Follower
from probe.telling.measured import read_run
from probe.telling.run import open_readable
from probe.telling.run_rows import Ledger
from probe.telling.shelf import shelve
from probe.telling.whole_run import ProfiledWindow, WholeRun, tell_tables, tell_windows

MOST_RUNS = 10
"""Runs that are kept in memory: more than a comparison holds."""
HISTORY_HOLDS_S = 60
"""A run beside the compared ones may end without anything in their folder telling so."""


def runs_below(folders: tuple[Path, ...]) -> Mapping[str, Path]:
    """Every run under its key, newest first as far as names tell."""
    shelf = shelve(folders)
    return {key: shelf[key] for key in sorted(shelf, reverse=True)}


def opened(path: Path) -> Run:
    """The run by its small documents, as they are at this moment."""
    return open_readable(path)


def follower(path: Path) -> Follower:
    """What follows a run in progress; one for all who look at it."""
    return _follower(str(path), path.stat().st_ino)


def told(path: Path) -> WholeRun:
    """The run with all that pages draw but its traces; its status is that of this moment."""
    run = open_readable(path)
    return replace(_told(str(path), fingerprint(path)), run=run)


def window_of(told: WholeRun) -> ProfiledWindow:
    """The profiled window of a run."""
    return _window(str(told.run.path), fingerprint(told.run.path))


def measured(path: Path) -> MeasuredRun:
    """The run as comparisons take it."""
    status = open_readable(path).verdict.status
    return replace(_measured(str(path), fingerprint(path)), status=status)


def history_beside(runs: Sequence[MeasuredRun]) -> list[tuple[EqualRun, ...]]:
    """For each run that is compared the other runs of its setup in its folder."""
    paths = tuple(run.path for run in runs)
    changed_ns = tuple(Path(path).parent.stat().st_mtime_ns for path in paths)
    return _history(runs, paths, changed_ns)


@st.cache_resource
def ledger() -> Ledger:
    """What the table of runs remembers; bounded on its own."""
    return Ledger()


def remark_at(path: Path) -> Remark:
    """Tags and notes of a run as they hold now."""
    return remark_of(path, read_manifest(path)[0] or Manifest())


def samples_folder() -> Path | None:
    """The folder of sample runs, here or in the checkout; None where there are none."""
    for folder in (Path("sample_runs"), Path(__file__).parents[1] / "sample_runs"):
        if run_paths(folder):
            return folder
    return None


@st.cache_resource(max_entries=MOST_RUNS, show_spinner="Reading the run …")
def _told(path: str, version: str) -> WholeRun:
    return tell_tables(open_readable(Path(path)))


@st.cache_resource(max_entries=MOST_RUNS, show_spinner=False)
def _follower(path: str, inode: int) -> Follower:
    return Follower(Path(path))


@st.cache_resource(max_entries=MOST_RUNS, show_spinner="Reading the profiled window …")
def _window(path: str, version: str) -> ProfiledWindow:
    return tell_windows(open_readable(Path(path)), distilled_only=True)


@st.cache_resource(max_entries=MOST_RUNS, show_spinner="Measuring the run …")
def _measured(path: str, version: str) -> MeasuredRun:
    return read_run(open_readable(Path(path)))


@st.cache_resource(
    max_entries=MOST_RUNS,
    ttl=HISTORY_HOLDS_S,
    show_spinner="Looking for runs of the same setup …",
)
def _history(
    _runs: Sequence[MeasuredRun], paths: tuple[str, ...], changed_ns: tuple[int, ...]
) -> list[tuple[EqualRun, ...]]:
    return history_of([[run] for run in _runs])


def folders_of(
    arguments: list[str], environment: Mapping[str, str] = os.environ
) -> tuple[Path, ...]:
    """The folders of runs: those named, else those of PROBE_RUNS, else `runs`."""
    named = arguments or environment.get("PROBE_RUNS", "").split(os.pathsep)
    return tuple(Path(item) for item in named if item) or (Path("runs"),)
