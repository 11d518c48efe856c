"""What all tests share: how hypothesis searches, what a skip may hide, who is started only once."""

import os
import shutil
from collections.abc import Generator, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests.engine.team import Team

CHROMIUM_ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
LONG_ROOMS = ("app", "report", "readme", "examples", "samples", "launch", "telemetry", "checkpoint")
"""Few tests that take long, in the order in which they begin: a worker that meets them last keeps
the others waiting."""

# The machine may be busy, so no example is judged by its time; and what was found stays found, so
# that a change is judged by the same examples as the one before it.
settings.register_profile(
    "suite",
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("suite")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """In CI a browser test that is skipped has failed: nobody would notice otherwise."""
    report = yield
    if report.skipped and os.environ.get("CI") and item.get_closest_marker("browser"):
        report.outcome = "failed"
        report.longrepr = f"skipped in CI: {report.longrepr}"
    return report


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long rooms come first; within a room everything stays in its order."""
    rank = {room: place for place, room in enumerate(LONG_ROOMS)}
    items.sort(key=lambda item: rank.get(item.path.parent.name, len(rank)))


@pytest.fixture(scope="session")
def teams() -> Iterator[dict[int, Team]]:
    """Teams of processes, one a world size, started when first asked for."""
    formed = {world: Team(world) for world in (1, 2, 3, 4)}
    yield formed
    for team in formed.values():
        team.stop()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Debian's Chromium, driven by Playwright, for the tests of one file."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        pytest.skip("there is no Chromium on this machine")
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=chromium, args=CHROMIUM_ARGUMENTS)
        yield started
        started.close()
