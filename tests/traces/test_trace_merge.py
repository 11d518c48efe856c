"""A run becomes one trace for a viewer, and nothing of its traces is lost in it."""

import gzip
import json

from made_traces import device_trace

from probe.__main__ import main
from probe.adopt import adopt_traces
from probe.merge import merge_run
from probe.read.run import load_run
from probe.read.trace import NONE
from probe.read.trace_file import read_trace
from probe.record.rank import RankWriter
from probe.record.run import RunWriter
from probe.schema.documents import Clock, Header, Manifest
from probe.schema.rows import MemoryRow, StepRow

US = 1000


def write_job(folder, ranks: int = 2):
    folder.mkdir()
    for rank in range(ranks):
        made = device_trace()
        made.head["distributedInfo"] = {"backend": "nccl", "rank": rank, "world_size": ranks}
        made.write(folder / f"worker{rank}.json")
    return folder


def test_all_ranks_stand_in_one_trace(tmp_path) -> None:
    run = load_run(adopt_traces([write_job(tmp_path / "job")], tmp_path / "runs").path)
    merged = merge_run(run, tmp_path / "merged.json.gz")
    assert (merged.ranks, merged.windows) == ((0, 1), 2)
    assert merged.size_bytes == (tmp_path / "merged.json.gz").stat().st_size
    read = read_trace(tmp_path / "merged.json.gz")
    assert not read.problems
    own = read_trace(tmp_path / "job" / "worker1.json")
    pids = {int(lane.process) for lane in read.lanes if int(lane.process) >= 1000}
    assert pids == {1000, 1001, 1002}
    places = [
        at
        for at in range(len(read.events))
        if read.lanes[read.events.lane[at]].process in ("1001", "1002")
    ]
    found = read.events.select(places)
    for name in ("start_ns", "duration_ns", "category", "correlation", "size_bytes"):
        assert getattr(found, name).tolist() == getattr(own.events, name).tolist()
    assert [read.names[code] for code in found.name] == [
        own.names[code] for code in own.events.name
    ]
    assert [code != NONE and read.signatures[code] for code in found.signature] == [
        code != NONE and own.signatures[code] for code in own.events.signature
    ]
    assert {read.collectives[code] for code in found.collective if code != NONE} == set(
        own.collectives
    )


def test_launches_point_at_what_they_started_and_processes_have_names(tmp_path) -> None:
    run = load_run(adopt_traces([write_job(tmp_path / "job")], tmp_path / "runs").path)
    merge_run(run, tmp_path / "merged.json", ranks=[1])
    elements = json.loads((tmp_path / "merged.json").read_bytes())["traceEvents"]
    begins = {item["id"]: item for item in elements if item["ph"] == "s"}
    ends = {item["id"]: item for item in elements if item["ph"] == "f"}
    assert len(begins) == 8
    assert begins.keys() == ends.keys()
    assert all(begins[number]["ts"] < ends[number]["ts"] for number in begins)
    names = {
        item["pid"]: item["args"]["name"] for item in elements if item["name"] == "process_name"
    }
    assert names == {
        1000: "rank 1 · run",
        1001: "rank 1 · process 1",
        1002: "rank 1 · device 0",
    }


def test_steps_and_counters_come_from_the_rows_onto_the_wall_clock(tmp_path) -> None:
    writer = RunWriter.create(tmp_path, Manifest(name="own", started_ns=1_700_000_000_000_000_000))
    clock = Clock(wall_ns=1_700_000_000_000_000_000, monotonic_ns=5000 * US)
    rank = RankWriter(writer.path, Header(rank=0, clock=clock))
    rank.write(StepRow(step=0, begin_ns=6000 * US, wall_ns=100 * US, loss=2.5, loss_scale=64.0))
    rank.write(
        StepRow(step=1, begin_ns=6100 * US, wall_ns=90 * US, loss=float("nan"), skipped=True)
    )
    rank.write(MemoryRow(step=1, rss_bytes=123))
    rank.close()
    merge_run(load_run(writer.path), tmp_path / "m.json.gz")
    document = json.loads(gzip.decompress((tmp_path / "m.json.gz").read_bytes()))
    zero_ns = document["baseTimeNanoseconds"]
    slices = [item for item in document["traceEvents"] if item["ph"] == "X"]
    assert [item["name"] for item in slices] == ["step 0", "step 1 (skipped)"]
    assert zero_ns + round(slices[0]["ts"] * 1000) == 1_700_000_000_000_000_000 + 1000 * US
    counters = [
        (item["name"], item["args"][item["name"]])
        for item in document["traceEvents"]
        if item["ph"] == "C"
    ]
    assert counters == [("loss", 2.5), ("loss_scale", 64.0), ("rss_bytes", 123)]


def test_the_verb_refuses_what_it_should(tmp_path, capsys, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    adopt_traces([write_job(tmp_path / "job")], tmp_path / "runs", name="two")
    assert main(["trace", "two", "-o", "m.json"]) == 0
    assert "events of 2 ranks, 2 profiled windows" in capsys.readouterr().out
    for arguments, message in (
        (["-o", "m.json"], "--force"),
        (["-o", "m.html"], "json.gz"),
        (["-o", "n.json", "--rank", "7"], "no rank 7"),
        (["-o", "absent/n.json"], "cannot be written"),
    ):
        assert main(["trace", "two", *arguments]) == 2
        assert message in capsys.readouterr().err
    assert main(["trace", "two", "-o", "m.json", "--force", "--rank", "1"]) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["job", "m.json", "runs"]
