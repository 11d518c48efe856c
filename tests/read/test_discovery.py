"""The runs below a folder: all of them, newest first, and the broken ones with their problems."""

import json
import os
import shutil
from pathlib import Path

import msgspec
import pytest
from building import make_run, metric_row

from probe.errors import NotARunError
from probe.read.discovery import find_runs, is_readable, run_paths, worst
from probe.schema.layout import HEARTBEAT, MANIFEST
from probe.schema.vocabulary import RunStatus, Severity
from probe.seal import seal_run


def change_manifest(run_dir: Path, **facts: object) -> None:
    manifest = json.loads((run_dir / MANIFEST).read_text()) | facts
    (run_dir / MANIFEST).write_text(json.dumps(manifest))


def test_newest_first(tmp_path: Path) -> None:
    moments = [3, 1, 2, 2, 5]
    for moment in moments:
        make_run(tmp_path, {0: [metric_row(0)]}, started_ns=moment * 10**18, name=f"n{moment}")
    found = find_runs(tmp_path)
    assert [item.started_ns // 10**18 for item in found] == [5, 3, 2, 2, 1]
    assert {item.path for item in found} == set(run_paths(tmp_path)) == set(tmp_path.iterdir())
    assert [item.path for item in find_runs(tmp_path)] == [item.path for item in found]


def test_a_run_itself_is_a_list_of_one(tmp_path: Path) -> None:
    run_dir = make_run(tmp_path)
    (summary,) = find_runs(run_dir)
    assert summary.path == run_dir
    assert (summary.ranks, summary.steps, summary.problems) == (2, 3, ())
    assert summary.verdict.status is RunStatus.FINISHED
    seal_run(run_dir)
    assert find_runs(run_dir) == [summary]


def test_broken_runs_are_listed_with_their_problems(tmp_path: Path) -> None:
    whole = make_run(tmp_path / "runs", name="whole")
    names = ["torn manifest", "no manifest", "other version", "no ranks", "bad start", "empty beat"]
    broken = {name: shutil.copytree(whole, tmp_path / "runs" / name) for name in names}
    os.truncate(broken["torn manifest"] / MANIFEST, 100)
    (broken["no manifest"] / MANIFEST).unlink()
    change_manifest(broken["other version"], format_version="7.1")
    shutil.rmtree(broken["no ranks"] / "rank_00000")
    shutil.rmtree(broken["no ranks"] / "rank_00001")
    change_manifest(broken["bad start"], started_ns="yesterday")
    (broken["empty beat"] / "rank_00000" / HEARTBEAT).write_bytes(b"")

    found = {item.name: item for item in find_runs(tmp_path / "runs")}

    assert found.keys() == {whole.name, *names}
    assert worst(found[whole.name].problems) is None
    assert worst(found["torn manifest"].problems) is Severity.ERROR
    assert worst(found["no manifest"].problems) is Severity.WARNING
    assert worst(found["other version"].problems) is Severity.ERROR
    assert not is_readable(found["other version"])
    assert found["no ranks"].ranks == 0
    assert found["bad start"].started_ns == int(broken["bad start"].stat().st_mtime_ns)
    assert worst(found["empty beat"].problems) is Severity.ERROR


def test_files_links_and_other_folders_between_runs(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    elsewhere = make_run(tmp_path / "elsewhere")
    run_dir = make_run(runs)
    (runs / "notes.txt").write_text("mine")
    (runs / "empty").mkdir()
    (runs / "other").mkdir()
    (runs / "other" / "steps.jsonl").write_text("")
    os.mkfifo(runs / "pipe")
    (runs / "dangling").symlink_to("nothing")
    (runs / "loop").symlink_to("loop")
    (runs / "linked").symlink_to(elsewhere)
    # A link that the user made beside the runs is the user's; links within a run are strangers'.
    assert {item.path for item in find_runs(runs)} == {run_dir, runs / "linked"}


def test_folders_that_cannot_be_listed(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(NotARunError, match="is a file"):
        find_runs(tmp_path / "file")
    with pytest.raises(NotARunError, match="does not exist"):
        find_runs(tmp_path / "nothing")
    assert find_runs(tmp_path) == []
    assert run_paths(tmp_path / "nothing") == []


def test_a_run_that_vanishes_while_it_is_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from probe.read import discovery

    stays, goes = make_run(tmp_path, name="stays"), make_run(tmp_path, name="goes")
    (goes / MANIFEST).unlink()
    read_whole = discovery.read_whole

    def remove_then_read(path: Path) -> object:
        if path == goes:
            shutil.rmtree(goes)
        return read_whole(path)

    monkeypatch.setattr(discovery, "read_whole", remove_then_read)
    assert [item.path for item in find_runs(tmp_path)] == [stays]


def test_a_thousand_runs(tmp_path: Path) -> None:
    model = make_run(tmp_path / "model", {0: [metric_row(4)]})
    manifest = msgspec.json.decode((model / MANIFEST).read_bytes())
    for number in range(1_000):
        run_dir = tmp_path / "runs" / f"run-{number}"
        (run_dir / "rank_00000").mkdir(parents=True)
        for file in ("header.json", HEARTBEAT):
            os.link(model / "rank_00000" / file, run_dir / "rank_00000" / file)
        manifest["started_ns"] = 10**18 + number
        (run_dir / MANIFEST).write_bytes(msgspec.json.encode(manifest))
    found = find_runs(tmp_path / "runs")
    assert [item.name for item in found] == [f"run-{number}" for number in reversed(range(1_000))]
    assert {(item.steps, item.ranks, item.verdict.status) for item in found} == {
        (5, 1, RunStatus.FINISHED)
    }
