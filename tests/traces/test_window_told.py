"""What `probe show` says of a profiled window, and `probe doctor` of one that is damaged."""

import json
import shutil
from pathlib import Path

import pytest
from made_traces import MadeTrace, cpu_trace, device_trace

from probe.__main__ import main
from probe.adopt import adopt_traces
from probe.analyse.trace.bound import Bound, bound_by
from probe.analyse.trace.breakdown import Breakdown
from probe.analyse.trace.gaps import GapCause
from probe.analyse.trace.summary import summarise_trace
from probe.read.run import load_run
from probe.read.trace_file import read_trace
from probe.telling import window as told
from probe.telling.window import tell_window


@pytest.fixture(autouse=True)
def _eighty_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


def run_of(tmp_path: Path, made: MadeTrace) -> Path:
    traces = tmp_path / "traces"
    traces.mkdir()
    made.write(traces / "worker0.pt.trace.json.gz")
    return adopt_traces([traces], tmp_path / "runs").path


def shown(capsys: pytest.CaptureFixture[str], *words: str | Path) -> str:
    assert main(["show", *map(str, words)]) == 0
    return capsys.readouterr().out


def test_the_section_of_a_device_trace(tmp_path, capsys) -> None:
    out = shown(capsys, run_of(tmp_path, device_trace()))
    assert (
        "profiled window of rank 1: steps 5 to 6, on the device\n"
        "part                      time    share\n"
        "computation             100 µs   58.8 %  ██████████████▏\n"
        "exposed communication  40.0 µs   23.5 %  █████▋\n"
        "idle                   30.0 µs   17.6 %  ████▎\n"
        "sum                     170 µs  100.0 %\n"
        "bound by communication: computation stands still for communication\n"
        "33.3 % of 60.0 µs of communication runs under computation\n"
        "idle in 1 gaps, the longest 30.0 µs: waiting for a stream 100.0 %\n"
    ) in out
    assert "aten::addmm" in out
    assert "critical path: " in out
    assert max(map(len, out.splitlines())) <= 80


def test_the_parts_and_the_path_sum_to_the_wall_time(tmp_path) -> None:
    for made in (device_trace(), cpu_trace()):
        summary = summarise_trace(read_trace(made.write(tmp_path / "made.json")))
        assert sum(summary.path_by_kind_ns.values()) == summary.total.wall_ns
        assert sum(summary.idle_by_cause_ns.values()) == summary.total.idle_ns
        assert sum(summary.path_by_name_ns.values()) <= summary.total.wall_ns


@pytest.mark.parametrize(
    ("parts", "causes", "bound"),
    [
        ((95, 2, 0), {}, Bound.COMPUTATION),
        ((60, 30, 0), {GapCause.HOST: 10}, Bound.COMMUNICATION),
        ((60, 5, 20), {GapCause.HOST: 15}, Bound.MEMCPY),
        ((60, 10, 0), {GapCause.LAUNCHING: 10, GapCause.DELAY: 5, GapCause.HOST: 15}, None),
        ((60, 10, 0), {GapCause.LAUNCHING: 12, GapCause.DELAY: 5}, Bound.LAUNCHING),
        ((60, 10, 0), {GapCause.DATA: 30}, Bound.DATA),
        ((60, 10, 0), {GapCause.DEPENDENCY: 30}, Bound.DEPENDENCY),
        ((60, 10, 0), {GapCause.SYNCHRONISING: 30}, Bound.SYNCHRONISING),
    ],
)
def test_the_largest_part_beside_computation_is_the_bound(parts, causes, bound) -> None:
    computation, communication, copies = parts
    total = Breakdown(
        computation_ns=computation,
        exposed_comm_ns=communication,
        exposed_memcpy_ns=copies,
        idle_ns=sum(causes.values()),
        wall_ns=100,
        comm_ns=communication,
        memcpy_ns=copies,
        overlapped_comm_ns=0,
    )
    assert bound_by(total, causes) in ({Bound.HOST, Bound.LAUNCHING} if bound is None else {bound})


def test_a_large_window_is_read_when_asked_for_and_a_small_one_can_be_left(
    tmp_path, capsys, monkeypatch
) -> None:
    run = run_of(tmp_path, cpu_trace())
    assert "profiled window" not in shown(capsys, run, "--no-trace")
    assert "bound by " in shown(capsys, run)
    monkeypatch.setattr(told, "CHEAP_BYTES", 100)
    assert "was not read; `probe show\n--trace` reads it" in shown(capsys, run)
    assert "bound by " in shown(capsys, run, "--trace")
    assert json.loads(shown(capsys, run, "--json"))["window"] is None


def test_json_of_a_window(tmp_path, capsys) -> None:
    run = run_of(tmp_path, device_trace())
    window = json.loads(shown(capsys, run, "--json"))["window"]
    assert (window["rank"], window["first_step"], window["bound"]) == (1, 5, "communication")
    total = window["total"]
    parts = ("computation_ns", "exposed_comm_ns", "exposed_memcpy_ns", "idle_ns")
    assert sum(total[part] for part in parts) == total["wall_ns"] == 170_000
    assert [step["step"] for step in window["steps"]] == [5, 6]
    assert {row["name"] for row in window["operators"]} >= {"aten::addmm", "aten::linear"}
    assert len(window["kernels"]) == 4


def test_the_window_of_a_rank_is_told_when_asked_for(tmp_path, capsys) -> None:
    run = run_of(tmp_path, device_trace())
    (own,) = run.glob("rank_*")
    shutil.copytree(own, run / "rank_00003")
    assert json.loads(shown(capsys, run, "--json"))["window"]["rank"] == 1
    third = json.loads(shown(capsys, run, "--json", "--rank", "3"))["window"]
    assert (third["rank"], third["windows"]) == (3, 2)
    assert main(["show", str(run), "--rank", "2"]) == 2
    assert "no profiled window of rank 2; those that have one are 1, 3." in capsys.readouterr().err


def test_a_window_without_events_is_passed_over(tmp_path) -> None:
    run = run_of(tmp_path, device_trace())
    (folder,) = run.glob("rank_*")
    (whole,) = folder.glob("*.parquet")
    whole.rename(folder / "trace_7.parquet")
    (folder / "trace_5.parquet").write_bytes(b"PAR1 no more")
    window = tell_window(load_run(run), at_any_cost=False)
    assert window is not None and window.summary is not None
    assert (window.file.step, window.windows) == (7, 2)
    assert [problem.file for problem in window.problems] == [f"{folder.name}/trace_5.parquet"]


def test_doctor_tells_of_damaged_traces(tmp_path, capsys) -> None:
    run = run_of(tmp_path, cpu_trace())
    assert main(["doctor", str(run)]) == 0
    assert capsys.readouterr().out.endswith(
        "no problems in 9 tables of 1 rank and 1 profiled window.\n"
    )
    (folder,) = run.glob("rank_*")
    (distilled,) = folder.glob("trace_*.parquet")
    packed = cpu_trace().write(folder / "trace_9.json.gz")
    packed.write_bytes(packed.read_bytes()[:-40])
    distilled.write_bytes(distilled.read_bytes()[:-20])
    assert main(["doctor", str(run)]) == 1
    out = capsys.readouterr().out
    for name in (packed.name, distilled.name):
        assert f"error    {folder.name}/{name}\n" in out
