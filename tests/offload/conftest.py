"""Two ranks for all cases of this room."""

import pytest

from tests.engine.team import Team


@pytest.fixture(scope="session")
def pair(teams: dict[int, Team]) -> Team:
    return teams[2]
