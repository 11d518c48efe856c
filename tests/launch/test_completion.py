"""A machine that ends late seals the run, for the first one does not wait for ever."""

from pathlib import Path

import pytest

from probe.launch import own_run
from probe.launch.joined_run import JoinedRun
from probe.launch.own_run import OwnRun
from probe.launch.processes import Outcome
from probe.launch.request import RunRequest
from probe.read.run import Run, load_run
from probe.record.rank import RankWriter
from probe.schema.codec import encode_document
from probe.schema.documents import Header, NodeFacts
from probe.schema.handover import HANDOVER_VARIABLE, Handover
from probe.schema.rows import StepRow
from probe.schema.vocabulary import RunStatus

WELL = Outcome(status=RunStatus.FINISHED, exit_codes={}, first=None, code=0)


class Team:
    """The launchers of three machines, each with a rank that has trained a step."""

    def __init__(self, folder: Path) -> None:
        script = folder / "train.py"
        script.touch()
        requests = [
            RunRequest(script=script, nodes="3", node_rank=node, runs_dir=folder / "runs")
            for node in range(3)
        ]
        self.told: list[str] = []
        self.own = OwnRun(requests[0], [])
        self.joined = [JoinedRun(request) for request in requests[1:]]
        self.path = self.own.path
        manifest = load_run(self.path).manifest
        word = NodeFacts(run_id=manifest.run_id, started_ns=manifest.started_ns)
        for joined in self.joined:
            handover = Handover.from_text(joined.environment[HANDOVER_VARIABLE])
            assert handover.word_file is not None
            Path(handover.word_file).write_bytes(encode_document(word))
        for rank in range(3):
            writer = RankWriter(self.path, Header(rank=rank, node=rank))
            writer.write(StepRow(step=0, begin_ns=0, wall_ns=1))
            writer.close()

    def end(self, node: int) -> None:
        """One of the launchers has seen its ranks end."""
        record = self.joined[node - 1] if node else self.own
        record.close(WELL, lambda words, is_error: self.told.append(words.decode()))

    def run(self) -> Run:
        return load_run(self.path)

    def is_sealed(self) -> bool:
        return (self.path / "tables/steps.parquet").exists()


@pytest.fixture
def team(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Team:
    monkeypatch.setattr(own_run, "LAST_WORDS_S", 0.0)
    return Team(tmp_path)


@pytest.mark.parametrize("late", [(1, 2), (2, 1)])
def test_the_last_machine_seals(team: Team, late: tuple[int, int]) -> None:
    team.end(0)
    assert not team.is_sealed()
    assert "machine 1, 2 has not said how it ended" in team.told[-1]
    team.end(late[0])
    assert not team.is_sealed()
    team.end(late[1])
    assert team.is_sealed()
    assert team.run().verdict.status is RunStatus.FINISHED
    assert team.run().table("steps").table.column("rank").to_pylist() == [0, 1, 2]


def test_only_who_is_late_seals(team: Team) -> None:
    team.end(1)
    team.end(0)
    assert team.run().manifest.awaited_nodes == [2]
    team.end(2)
    assert team.is_sealed()


def test_the_first_machine_seals_when_all_have_spoken(team: Team) -> None:
    team.end(1)
    team.end(2)
    assert not team.is_sealed()
    team.end(0)
    assert team.is_sealed()
    assert team.run().manifest.awaited_nodes == []


def test_a_word_that_comes_while_the_first_goes(
    team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Machine 2 speaks after the waiting and before it can read that it is waited for."""
    team.end(1)
    update = team.own._writer.update

    def while_written(**facts: object) -> None:
        if "awaited_nodes" in facts:
            team.end(2)
        update(**facts)

    monkeypatch.setattr(team.own._writer, "update", while_written)
    team.end(0)
    assert team.is_sealed()
