"""The harness itself: a short race on a tiny model, with real processes."""

from pathlib import Path

import pytest

from benchmarks import __main__ as command
from benchmarks.interleave import Plan, race
from benchmarks.setting import Setting
from benchmarks.table import render, to_json
from benchmarks.team import ContestantError, Team
from probe.schema.vocabulary import Precision

TINY = Setting(shape="small", micro_batch=2, stage=1, precision=Precision.FP32)
SHORT = Plan(warmup_steps=2, rounds=2, turn_steps=2)


@pytest.fixture(scope="module")
def finished():
    said: list[str] = []
    outcome = race(["zeroprobe", "ddp", "ddp_zero", "bound"], TINY, SHORT, said.append)
    return outcome, said


def test_every_contestant_is_measured_equally(finished):
    outcome, _ = finished
    for record in outcome.records.values():
        assert [len(one_round) for one_round in record.rounds_ns] == [2, 2]
        assert [len(one_round) for one_round in record.cpu_rounds_ns] == [2, 2]
        assert all(time > 0 for one_round in record.rounds_ns for time in one_round)
        assert len(record.losses) == 2 + 2 * (1 + 2)
        assert record.peak_bytes > record.base_bytes > 0
    assert 0.0 <= outcome.others_share <= 1.0


def test_contestants_train_the_same(finished):
    # GIVEN the same model, data and optimizer, THEN fp32 losses agree at every step
    records = finished[0].records
    for name in ("zeroprobe", "ddp_zero"):
        assert records[name].losses == pytest.approx(records["ddp"].losses, rel=1e-5)
    assert records["ddp"].losses[-1] < records["ddp"].losses[0]


def test_the_bound_tells_its_parts_and_only_the_bound(finished):
    records = finished[0].records
    assert set(records["bound"].parts_ns) == {"compute", "reduce", "update", "gather"}
    assert all(len(times) == 4 for times in records["bound"].parts_ns.values())
    assert records["zeroprobe"].parts_ns == {}


def test_turns_go_there_and_back(finished):
    _, said = finished
    order = [line.rpartition(": ")[2] for line in said if line.startswith("round")]
    there = ["zeroprobe", "ddp", "ddp_zero", "bound"]
    assert order == there + there[::-1]


def test_the_table_fits_100_columns_and_names_all(finished):
    outcome, _ = finished
    table = render(outcome)
    assert max(len(line) for line in table.splitlines()) <= 100
    assert all(name in table for name in outcome.records)
    assert "zeroprobe / ddp_zero" in table
    assert "zeroprobe / bound" in table
    assert set(to_json(outcome)["summaries"]) == set(outcome.records)


def test_a_contestant_that_cannot_start_is_named_with_its_rank(tmp_path):
    with (
        pytest.raises(ContestantError, match=r"(?s)nobody, rank \d: .*KeyError"),
        Team(contestant="nobody", setting=TINY, folder=tmp_path) as team,
    ):
        team.take_turn(1)


def test_a_failed_start_leaves_no_process_behind(tmp_path):
    team = Team(contestant="nobody", setting=TINY, folder=tmp_path)
    with pytest.raises(ContestantError):
        team.__enter__()
    assert not any(worker.process.is_alive() for worker in team.workers)


def test_the_command_writes_json_and_markdown(tmp_path, capsys):
    arguments = "--shape small --precision bf16 --stage 0 --steps 2 --turn-steps 2 --warmup-steps 1"
    into = tmp_path / "results"
    assert command.main([*arguments.split(), "--contestants", "bound", "--into", str(into)]) == 0
    assert "bf16, stage 0, 2 ranks" in capsys.readouterr().out
    assert {path.name for path in Path(into).iterdir()} == {
        "bf16_stage0_2ranks.json",
        "speed_2ranks.md",
    }


def test_the_command_refuses_a_contestant_it_does_not_know(capsys):
    with pytest.raises(SystemExit):
        command.main(["--contestants", "zeropobe"])
    assert "zeropobe" in capsys.readouterr().err
