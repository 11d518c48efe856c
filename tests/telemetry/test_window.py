"""The profiled window: a trace for each rank that was asked for, and marked steps on all."""

import gzip
import json
from collections import Counter
from pathlib import Path

from probe.schema.documents import ProfileWindow
from probe.schema.layout import rank_dir, trace_name
from probe.schema.tables import EVENTS, STEPS
from probe.schema.vocabulary import Phase, ProfileDetail
from tests.engine.cases import config
from tests.engine.team import Team
from tests.telemetry.recorded import begin, micro_batch, recording_into, rows_of


def profiled(run_dir: str, window: ProfileWindow, steps: int) -> None:
    with recording_into(run_dir, profile=window):
        trainer = begin(config(3))
        for number in range(steps):
            micro_batch(trainer, number)
        trainer.close()


def test_the_window_is_traced_and_marked(teams: dict[int, Team], tmp_path: Path) -> None:
    window = ProfileWindow(first_step=2, end_step=4, ranks=[1], details=[ProfileDetail.SHAPES])
    teams[2].run(profiled, run_dir=str(tmp_path), window=window, steps=7)
    marked = {(row["rank"], row["step"]) for row in rows_of(tmp_path, STEPS) if row["profiled"]}
    assert marked == {(rank, step) for rank in (0, 1) for step in (1, 2, 3, 4)}
    assert not (tmp_path / rank_dir(0) / trace_name(2)).exists()
    kept = tmp_path / rank_dir(1) / trace_name(2)
    with gzip.open(kept) as file:
        events = json.load(file)["traceEvents"]
    named = Counter(event["name"] for event in events if event.get("cat") == "user_annotation")
    assert named["ProfilerStep#2"] == named["ProfilerStep#3"] == 1
    assert not any(name.startswith("ProfilerStep#") and name[-1] not in "23" for name in named)
    assert named[Phase.FORWARD] == named[Phase.BACKWARD] == named[Phase.OPTIMIZER] == 2
    assert named["blocks.1"] == 2
    assert any("Input Dims" in event.get("args", {}) for event in events)
    (told,) = (row for row in rows_of(tmp_path, EVENTS) if row["kind"] == "profile_window")
    assert (told["rank"], told["step"], told["size_bytes"]) == (1, 2, kept.stat().st_size)


def test_a_window_that_the_script_does_not_finish_is_kept(
    teams: dict[int, Team], tmp_path: Path
) -> None:
    window = ProfileWindow(first_step=0, end_step=50, ranks=[0])
    teams[1].run(profiled, run_dir=str(tmp_path), window=window, steps=2)
    with gzip.open(tmp_path / rank_dir(0) / trace_name(0)) as file:
        assert "ProfilerStep#1" in file.read().decode()
    assert all(row["profiled"] for row in rows_of(tmp_path, STEPS))


def test_a_trace_that_cannot_be_written_costs_a_warning(
    teams: dict[int, Team], tmp_path: Path
) -> None:
    in_the_way = tmp_path / rank_dir(0) / trace_name(1)
    (in_the_way / "full").mkdir(parents=True)
    window = ProfileWindow(first_step=1, end_step=2, ranks=[0])
    teams[1].run(profiled, run_dir=str(tmp_path), window=window, steps=4)
    (told,) = (row for row in rows_of(tmp_path, EVENTS) if row["kind"] == "warning")
    assert "No trace was kept" in told["message"]
    assert len(rows_of(tmp_path, STEPS)) == 4
