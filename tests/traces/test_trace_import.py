"""A folder of traces becomes a run that every verb understands."""

import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_traces import MadeTrace, cpu_trace, device_trace

from probe.__main__ import main
from probe.adopt import adopt_traces
from probe.analyse.trace.activity import find_activity
from probe.analyse.trace.breakdown import break_down
from probe.analyse.trace.steps import StepMark, find_steps
from probe.distill import distill_run, write_distilled
from probe.errors import UsageError
from probe.read.run import check_run, load_run
from probe.read.run_traces import find_traces, load_trace
from probe.read.trace import NONE, Trace
from probe.read.trace_file import read_trace
from probe.read.trace_table import from_table, to_table
from probe.schema.layout import rank_dir
from probe.schema.tables import TABLE_BY_NAME
from probe.schema.trace import TRACE
from probe.schema.vocabulary import RunStatus, Severity


def write_job(folder: Path, ranks: int = 2) -> Path:
    """A folder of one device trace a rank, as HTA wants it."""
    folder.mkdir()
    for rank in range(ranks):
        made = device_trace()
        made.head["distributedInfo"] = {"backend": "nccl", "rank": rank, "world_size": ranks}
        made.write(folder / f"worker{rank}.pt.trace.json.gz")
    return folder


def test_a_folder_becomes_a_run_that_is_whole(tmp_path) -> None:
    adopted = adopt_traces([write_job(tmp_path / "job")], tmp_path / "runs")
    assert not adopted.problems
    assert [(item.rank, item.steps) for item in adopted.traces] == [(0, (5, 6)), (1, (5, 6))]
    run = load_run(adopted.path)
    assert run.verdict.status is RunStatus.FINISHED
    assert (run.manifest.name, run.manifest.recorder) == ("job", "kineto")
    assert (run.manifest.world_size, run.manifest.backend) == (2, "nccl")
    assert run.manifest.devices[0].name == "Made GPU"
    assert run.manifest.started_ns == 1_700_000_000_000_500_000
    assert run.headers[1].clock.wall_ns == run.headers[1].clock.monotonic_ns
    steps = run.table("steps").frame()
    assert steps[["rank", "step"]].to_numpy().tolist() == [[0, 5], [0, 6], [1, 5], [1, 6]]
    assert steps["profiled"].all()
    assert run.table("comm").frame()["logical_bytes"].tolist() == [4000] * 4
    assert run.table("events").frame()["kind"].tolist() == ["profile_window"] * 2
    assert not check_run(run)


def test_the_trace_of_an_imported_run_is_the_trace(tmp_path) -> None:
    adopted = adopt_traces([write_job(tmp_path / "job")], tmp_path / "runs")
    windows = find_traces(adopted.path)
    assert [(item.rank, item.step, item.distilled) for item in windows] == [
        (0, 5, True),
        (1, 5, True),
    ]
    read = load_trace(adopted.path, windows[1])
    assert_same(read, read_trace(tmp_path / "job" / "worker1.pt.trace.json.gz"))
    parts = break_down(find_activity(read), find_steps(read).steps)
    assert [item.computation_ns for item in parts] == [50_000, 50_000]


def test_the_profiler_s_json_serves_where_nothing_was_distilled(tmp_path) -> None:
    run = adopt_traces([write_job(tmp_path / "job")], tmp_path / "runs").path
    (run / rank_dir(0) / "trace_5.parquet").unlink()
    shutil.copy(tmp_path / "job/worker0.pt.trace.json.gz", run / rank_dir(0) / "trace_5.json.gz")
    first, second = find_traces(run)
    assert (first.distilled, second.distilled) == (False, True)
    assert len(load_trace(run, first).events) == len(load_trace(run, second).events)


def test_several_windows_of_a_rank_lie_side_by_side_and_twice_is_once(tmp_path) -> None:
    folder = write_job(tmp_path / "job", ranks=1)
    later = (
        MadeTrace(head={"distributedInfo": {"rank": 0}}).step(40, 9000, 9100).op("a", 9001, 9002)
    )
    later.write(folder / "later.json")
    shutil.copy(folder / "worker0.pt.trace.json.gz", folder / "z.json.gz")
    adopted = adopt_traces([folder], tmp_path / "runs")
    assert sorted(item.steps for item in adopted.traces) == [(5, 6), (40,)]
    assert [item.step for item in find_traces(adopted.path)] == [5, 40]
    assert load_run(adopted.path).table("steps").frame()["step"].tolist() == [5, 6, 40]
    (problem,) = adopted.problems
    assert "does already" in problem.what


def test_ranks_come_from_the_trace_then_the_name_then_the_order(tmp_path) -> None:
    made = cpu_trace()
    made.write(tmp_path / "alpha.json")
    made.write(tmp_path / "beta.json")
    made.write(tmp_path / "rank7.json")
    adopted = adopt_traces([tmp_path], tmp_path / "runs")
    assert [(item.source.name, item.rank) for item in adopted.traces] == [
        ("alpha.json", 0),
        ("beta.json", 1),
        ("rank7.json", 7),
    ]
    assert load_run(adopted.path).manifest.world_size == 8


def test_damaged_and_foreign_files_are_told_and_the_others_imported(tmp_path) -> None:
    folder = write_job(tmp_path / "job")
    (folder / "config.json").write_text('{"batch": 3}')
    (folder / "notes.txt").write_text("no trace")
    whole = (folder / "worker1.pt.trace.json.gz").read_bytes()
    (folder / "worker1.pt.trace.json.gz").write_bytes(whole[: len(whole) * 3 // 4])
    adopted = adopt_traces([folder], tmp_path / "runs")
    assert [item.source.name[:7] for item in adopted.traces] == ["worker0", "worker1"]
    whats = {item.file: item.what for item in adopted.problems}
    assert "holds no traceEvents" in whats["config.json"]
    assert "ends within its gzip stream" in whats["worker1.pt.trace.json.gz"]
    (kept,) = [window for window in find_traces(adopted.path) if window.rank == 1]
    assert load_trace(adopted.path, kept).problems


def test_nothing_to_import_makes_no_run(tmp_path) -> None:
    (tmp_path / "job").mkdir()
    for path, message in (
        (tmp_path / "job", "holds no"),
        (tmp_path / "absent", "does not exist"),
    ):
        with pytest.raises(UsageError, match=message):
            adopt_traces([path], tmp_path / "runs")
    (tmp_path / "job/a.json").write_text("{}")
    with pytest.raises(UsageError, match="no trace to import"):
        adopt_traces([tmp_path / "job"], tmp_path / "runs")
    assert not (tmp_path / "runs").exists()


def test_the_verb_tells_what_it_made_and_the_others_understand_it(
    tmp_path, capsys, monkeypatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_job(tmp_path / "job")
    assert main(["import", "job", "--name", "before"]) == 0
    out = capsys.readouterr().out
    assert "worker1.pt.trace.json.gz" in out
    assert "is made of 2 traces." in out
    for verb in (["list"], ["show", "before"], ["doctor", "before"], ["seal", "before"]):
        assert main(verb) == 0, verb
    assert "2 recorded, 0 skipped, 2 profiled" in capsys.readouterr().out
    assert len(find_traces(next((tmp_path / "runs").iterdir()))) == 2
    assert main(["import", "job", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [item["rank"] for item in told["traces"]] == [0, 1]
    assert told["traces"][0]["steps_by"] == StepMark.PROFILER_STEP
    assert main(["import", "absent"]) == 2


def assert_same(one: Trace, other: Trace) -> None:
    """Two traces hold the same events, whatever their codes are."""
    assert one.facts == other.facts
    assert one.problems == other.problems
    for name in ("start_ns", "duration_ns", "category", "external_id", "correlation", "size_bytes"):
        assert (getattr(one.events, name) == getattr(other.events, name)).all(), name
    for codes, texts in (
        ("name", "names"),
        ("lane", "lanes"),
        ("signature", "signatures"),
        ("collective", "collectives"),
    ):
        left, right = (
            [
                None if code == NONE else getattr(trace, texts)[code]
                for code in getattr(trace.events, codes)
            ]
            for trace in (one, other)
        )
        assert left == right, codes


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_distilling_loses_nothing(tmp_path_factory, data: st.DataObject) -> None:
    made = MadeTrace(head={"host_name": data.draw(st.text(max_size=5))})
    for _ in range(data.draw(st.integers(0, 6))):
        args = data.draw(
            st.dictionaries(
                st.sampled_from(
                    ["External_id", "correlation", "bytes", "In_msg_nelems", "Group_size"]
                ),
                st.integers(0, 2**62),
            )
        )
        if data.draw(st.booleans()):
            args["Collective_name"] = data.draw(st.text(min_size=1, max_size=4))
        if data.draw(st.booleans()):
            args["Input_Dims"] = data.draw(st.lists(st.integers(0, 9), max_size=2))
        cat = data.draw(st.sampled_from(["cpu_op", "kernel", "gpu_memcpy", "unheard_of"]))
        name = data.draw(st.text(max_size=6))
        begin = data.draw(st.integers(0, 10**12)) / 1000
        made.add(cat, name, begin, begin + 1, tid=data.draw(st.text(max_size=3)), **args)
    path = made.write(tmp_path_factory.mktemp("t") / "made.json")
    trace = read_trace(path)
    distilled = write_distilled(trace, path.parent, 3)
    assert distilled.name == "trace_3.parquet"
    assert_same(from_table(pq.read_table(distilled)), trace)


def test_the_columns_of_the_distilled_form_are_those_of_the_schema(tmp_path) -> None:
    trace = read_trace(device_trace().write(tmp_path / "a.json"))
    table = to_table(trace)
    assert table.column_names == [field.name for field in TRACE.fields]
    for field in TRACE.fields:
        if not field.optional:
            assert table[field.name].null_count == 0, field.name
    assert "trace" not in TABLE_BY_NAME


HUGE = 2**63 - 1


@pytest.mark.parametrize(
    "table",
    [
        pa.table({"a": [1, 2]}),
        pa.table(
            {"start_ns": pa.array([None, 2**63 - 1], pa.int64()), "duration_ns": [5, 2**63 - 1]}
        ),
        pa.table({"start_ns": ["x"], "name": ["a"]}),
        pa.table(
            {"category": ["new word"], "name": pa.array([None], pa.string()), "group_size": ["x"]}
        ),
        pa.table({"name": [["nested"]]}),
    ],
)
def test_a_foreign_parquet_is_read_or_told(tmp_path, table: pa.Table) -> None:
    run = adopt_traces([write_job(tmp_path / "job", ranks=1)], tmp_path / "runs").path
    pq.write_table(table, run / rank_dir(0) / "trace_5.parquet")
    (window,) = find_traces(run)
    trace = load_trace(run, window)
    assert len(trace.events) == table.num_rows or trace.problems
    break_down(find_activity(trace), find_steps(trace).steps)


def test_a_broken_or_linked_parquet_is_told(tmp_path) -> None:
    run = adopt_traces([write_job(tmp_path / "job", ranks=1)], tmp_path / "runs").path
    (window,) = find_traces(run)
    path = run / rank_dir(0) / window.name
    content = path.read_bytes()
    rng = np.random.default_rng(3)
    for _ in range(60):
        damaged = bytearray(content)
        damaged[rng.integers(len(content))] ^= int(rng.integers(1, 255))
        path.write_bytes(damaged)
        load_trace(run, window)
    path.write_bytes(content[:100])
    (problem,) = load_trace(run, window).problems
    assert problem.severity is Severity.ERROR
    path.unlink()
    path.symlink_to("/etc/hostname")
    (problem,) = load_trace(run, window).problems
    assert "link" in problem.what


def test_a_run_with_only_json_is_distilled_once(tmp_path) -> None:
    run = adopt_traces([write_job(tmp_path / "job")], tmp_path / "runs").path
    distilled = run / rank_dir(1) / "trace_5.parquet"
    distilled.unlink()
    shutil.copy(tmp_path / "job/worker1.pt.trace.json.gz", run / rank_dir(1) / "trace_5.json.gz")
    assert [window.distilled for window in find_traces(run)] == [True, False]
    assert distill_run(run).paths == (distilled,)
    assert all(window.distilled for window in find_traces(run))
    assert distill_run(run).paths == ()
