"""Teams of processes, one a world size, for this room."""

from collections.abc import Iterator

import pytest

from tests.engine.team import Team


@pytest.fixture(scope="session")
def teams() -> Iterator[dict[int, Team]]:
    formed = {world: Team(world) for world in (1, 2, 3, 4)}
    yield formed
    for team in formed.values():
        team.stop()
