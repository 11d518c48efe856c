"""The harness itself: a short race on a tiny model, with real processes."""

from pathlib import Path

import pytest

from benchmarks import __main__ as command
from benchmarks.interleave import Plan, gather_record, race
from benchmarks.setting import Setting
from benchmarks.table import render, to_json
from benchmarks.team import ContestantError, Team
from benchmarks.worker import Memory, Turn
from probe.schema.vocabulary import Precision

TINY = Setting(shape="small", micro_batch=2, stage=0, precision=Precision.FP32)
SHORT = Plan(warmup_steps=2, rounds=2, turn_steps=2)


@pytest.fixture(scope="module")
def finished():
    said: list[str] = []
    outcome = race(["zeroprobe", "ddp", "bound"], TINY, SHORT, said.append)
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
    assert records["zeroprobe"].losses == pytest.approx(records["ddp"].losses, rel=1e-5)
    assert records["ddp"].losses[-1] < records["ddp"].losses[0]


def test_the_bound_tells_its_parts_and_only_the_bound(finished):
    records = finished[0].records
    assert set(records["bound"].parts_ns) == {"compute", "reduce", "update"}
    assert all(len(times) == 4 for times in records["bound"].parts_ns.values())
    assert records["zeroprobe"].parts_ns == {}


def test_turns_go_there_and_back(finished):
    _, said = finished
    order = [line.rpartition(": ")[2] for line in said if line.startswith("round")]
    there = ["zeroprobe", "ddp", "bound"]
    assert order == there + there[::-1]


def test_the_table_fits_100_columns_and_names_all(finished):
    outcome, _ = finished
    table = render(outcome)
    assert max(len(line) for line in table.splitlines()) <= 100
    assert all(name in table for name in outcome.records)
    assert "zeroprobe / ddp" in table
    assert "zeroprobe / bound" in table
    assert set(to_json(outcome)["summaries"]) == set(outcome.records)


def test_a_contestant_that_cannot_start_is_named_and_leaves_no_process_behind(tmp_path):
    team = Team(contestant="nobody", setting=TINY, folder=tmp_path)
    with pytest.raises(ContestantError, match=r"(?s)nobody, rank \d: .*KeyError"):
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


def test_a_step_lasts_from_the_last_rank_to_the_last_rank():
    # GIVEN two ranks that end three steps, the first of which is not measured
    first = Turn(
        end_ns=[10, 25, 40],
        cpu_ns=[5, 9, 20],
        losses=[3.0, 2.0, 1.0],
        parts_ns=[
            {"compute": 1, "reduce": 1},
            {"compute": 4, "reduce": 6},
            {"compute": 5, "reduce": 2},
        ],
    )
    second = Turn(
        end_ns=[12, 20, 45],
        cpu_ns=[5, 13, 19],
        losses=[5.0, 4.0, 3.0],
        parts_ns=[
            {"compute": 9, "reduce": 9},
            {"compute": 6, "reduce": 3},
            {"compute": 3, "reduce": 7},
        ],
    )
    memory = [Memory(base_bytes=1, peak_bytes=9), Memory(base_bytes=2, peak_bytes=7)]
    record = gather_record("a", [[Turn(), Turn()], [first, second]], memory)
    assert record.rounds_ns == ((25 - 12, 45 - 25),)
    assert record.cpu_rounds_ns == ((8, 11),)
    assert record.losses == (4.0, 3.0, 2.0)
    # a part computed waits for the slowest rank; a collective is as quick as its last arrival saw
    assert record.parts_ns == {"compute": (6, 5), "reduce": (3, 2)}
    assert (record.base_bytes, record.peak_bytes) == (2, 9)
