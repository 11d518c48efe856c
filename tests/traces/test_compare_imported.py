"""Imported runs beside each other and beside recorded ones: compared as far as both tell."""

import json
from pathlib import Path

import pytest
from made_traces import MadeTrace

from probe.__main__ import main
from probe.adopt import adopt_traces
from probe.record.rank import RankWriter
from probe.record.run import RunWriter
from probe.schema.documents import Header
from probe.schema.vocabulary import RunStatus
from tests.analyse.compared import manifest, rows_of_run

STEPS = 8


def imported(tmp_path: Path, name: str, *, compute_us: float) -> Path:
    """A run of one trace, whose steps compute for so long and then reduce for 20 us."""
    trace = MadeTrace(
        head={"deviceProperties": [], "distributedInfo": {"rank": 0, "world_size": 2}}
    )
    for number in range(STEPS):
        begin = 1000.0 + number * (compute_us + 40)
        done = begin + compute_us
        trace.step(number, begin, done + 40)
        trace.op("aten::mm", begin, done)
        trace.note("gloo:all_reduce", done + 5, done + 25, Input_Dims=[[250]], Input_type=["float"])
    folder = tmp_path / name
    folder.mkdir()
    trace.write(folder / "worker0.pt.trace.json")
    return adopt_traces([folder], tmp_path / "runs", name=name).path


def recorded(tmp_path: Path) -> Path:
    run = RunWriter.create(tmp_path / "runs", manifest())
    for rank in range(2):
        writer = RankWriter(run.path, Header(rank=rank))
        for by_rank in rows_of_run(steps=40).values():
            for row in by_rank[rank]:
                writer.write(row)
        writer.close()
    run.finish(RunStatus.FINISHED, {0: 0, 1: 0})
    return run.path


def compared(capsys: pytest.CaptureFixture[str], *words: str | Path) -> tuple[int, str]:
    capsys.readouterr()
    code = main(["compare", *map(str, words)])
    out, err = capsys.readouterr()
    assert not err
    return code, out


def test_two_imported_runs(tmp_path, capsys, monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    quick = imported(tmp_path, "quick", compute_us=100)
    slow = imported(tmp_path, "slow", compute_us=200)
    code, out = compared(capsys, quick, slow)
    assert code == 0
    assert max(map(len, out.splitlines())) <= 80
    assert "COMPARABLE" in out and "NOT COMPARABLE" not in out
    # Every step was profiled, so profiled steps count, and it is said.
    assert "profiled" in out
    assert "aten::mm" in out, "operators of both windows"
    (pair,) = json.loads(compared(capsys, quick, slow, "--json")[1])["comparison"]["pairs"]
    step_time = next(item for item in pair["measures"] if item["name"] == "step_time")
    assert (step_time["first"], step_time["second"]) == (140_000, 240_000)
    assert pair["waterfall"]["second_ns"] - pair["waterfall"]["first_ns"] == 100_000
    (operation,) = pair["traffic"]
    assert operation["first_logical_bytes"] == operation["second_logical_bytes"] == 1000
    assert pair["memory"] == [] and pair["losses"] is None and pair["exchanges"] == []


def test_an_imported_run_beside_a_recorded_one(tmp_path, capsys, monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    pair = recorded(tmp_path), imported(tmp_path, "trace", compute_us=100)
    for first, second in (pair, pair[::-1]):
        code, out = compared(capsys, first, second)
        # The trace does not tell its model, precision or stage, and nothing is claimed of them.
        assert code in (0, 3)
        assert max(map(len, out.splitlines())) <= 80
        (told,) = json.loads(compared(capsys, first, second, "--json")[1])["comparison"]["pairs"]
        assert told["operators"] == [] and told["losses"] is None
        names = {item["name"]: item for item in told["measures"]}
        assert names["step_time"]["first"] and names["step_time"]["second"]
