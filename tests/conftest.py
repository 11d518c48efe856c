"""What all tests share: how hypothesis searches, and what a skip may hide."""

import os
from collections.abc import Generator

import pytest
from hypothesis import HealthCheck, settings

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
