"""Two ranks that stay for all cases of this room."""

from collections.abc import Iterator

import pytest

from tests.engine.team import Team


@pytest.fixture(scope="session")
def pair() -> Iterator[Team]:
    team = Team(2)
    yield team
    team.stop()
