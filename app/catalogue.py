"""Every page of the dashboard, a line each: to add one, write `app/views/NAME.py` and its line.

A page of a run gets the run, read and told, and what is looked at; a free page gets only the latter
and loads what it needs. `shows` says which evidence a page holds: findings link there.
"""

from collections.abc import Callable
from dataclasses import dataclass

from app.state import ViewState
from app.views import (
    communication,
    compare,
    live,
    memory,
    offload,
    overview,
    precision,
    runs,
    timeline,
)
from probe.analyse.findings.finding import View
from probe.telling.whole_run import WholeRun


@dataclass(frozen=True, kw_only=True)
class RunPage:
    """A page about one run; drawn under a heading with its name and status."""

    name: str
    """The path in the address."""
    title: str
    icon: str
    show: Callable[[WholeRun, ViewState], None]
    shows: tuple[View, ...] = ()


@dataclass(frozen=True, kw_only=True)
class FreePage:
    """A page that is not about one run."""

    name: str
    title: str
    icon: str
    show: Callable[[ViewState], None]


Page = RunPage | FreePage

PAGES: tuple[Page, ...] = (
    FreePage(name="runs", title="Runs", icon=":material/list:", show=runs.show),
    RunPage(
        name="overview",
        title="Overview",
        icon=":material/insights:",
        show=overview.show,
        shows=(View.STEPS,),
    ),
    RunPage(
        name="precision",
        title="Precision",
        icon=":material/exposure:",
        show=precision.show,
        shows=(View.PRECISION,),
    ),
    RunPage(
        name="memory",
        title="Memory",
        icon=":material/memory:",
        show=memory.show,
        shows=(View.MEMORY,),
    ),
    RunPage(
        name="communication",
        title="Communication",
        icon=":material/swap_horiz:",
        show=communication.show,
        shows=(View.COMMUNICATION,),
    ),
    RunPage(
        name="offload",
        title="Offload",
        icon=":material/storage:",
        show=offload.show,
        shows=(View.OFFLOAD,),
    ),
    RunPage(
        name="timeline",
        title="Timeline",
        icon=":material/view_timeline:",
        show=timeline.show,
    ),
    FreePage(name="compare", title="Compare", icon=":material/compare_arrows:", show=compare.show),
    FreePage(name="live", title="Live", icon=":material/monitor_heart:", show=live.show),
)
"""In the order of the navigation; the first is where the dashboard opens."""
