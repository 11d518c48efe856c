"""`probe list`: every run has its line, whatever state it is in."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from probe.schema.documents import RunConfig
from probe.schema.vocabulary import Precision, RunStatus

HOUR_NS = 3600 * 10**9
STARTED_NS = 1_750_000_000 * 10**9

MakeRun = Callable[..., Path]


def names(out: str) -> list[str]:
    return [line.split()[0] for line in out.splitlines()[1:]]


def test_runs_are_listed_newest_first(probe, make_run: MakeRun) -> None:
    for hours, name in enumerate(["old", "middle", "new"]):
        make_run(name, started_ns=STARTED_NS + hours * HOUR_NS)
    answer = probe("list")
    assert answer.code == 0
    assert names(answer.out) == ["new", "middle", "old"]
    assert names(probe("list", "--limit", "2").out) == ["new", "middle"]


def test_what_a_line_tells(probe, make_run: MakeRun, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.time_ns", lambda: STARTED_NS + 2 * HOUR_NS)
    config = RunConfig(precision=Precision.BF16, stage=3)
    make_run("demo", started_ns=STARTED_NS, config=config, status=RunStatus.FAILED)
    assert probe("list").out == (
        "name  status  prec  zero  offload  ranks  steps  age  health\n"
        "demo  failed  bf16     3  –            2      3  2 h  ok\n"
    )


def test_the_folder_is_an_argument_or_a_variable(
    probe, make_run: MakeRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_run("demo")
    (tmp_path / "runs").rename(tmp_path / "elsewhere")
    assert names(probe("list", tmp_path / "elsewhere").out) == ["demo"]
    monkeypatch.setenv("PROBE_RUNS", str(tmp_path / "elsewhere"))
    assert names(probe("list").out) == ["demo"]


def test_a_run_itself_is_a_list_of_one(probe, make_run: MakeRun) -> None:
    assert names(probe("list", make_run("demo")).out) == ["demo"]


def test_a_missing_folder_is_refused_in_a_sentence(probe) -> None:
    answer = probe("list", "nowhere")
    assert answer.code == 2
    assert answer.out == ""
    assert answer.err.startswith("probe: nowhere does not exist; `probe run")


def test_an_empty_folder_is_no_error(probe, tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    answer = probe("list")
    assert (answer.code, answer.out) == (0, "")
    assert answer.err == "runs holds no runs yet.\n"
    assert json.loads(probe("list", "--json").out) == []


def test_broken_runs_are_listed_with_the_others(
    probe, make_run: MakeRun, rewrite_manifest: Callable[..., None], tmp_path: Path
) -> None:
    make_run("good")
    (make_run("no-manifest") / "manifest.json").unlink()
    (make_run("noise") / "manifest.json").write_bytes(os.urandom(100))
    rewrite_manifest(make_run("future"), format_version="9.0")
    (make_run("no-ranks", ranks=1, world_size=1) / "rank_00000" / "header.json").unlink()
    (tmp_path / "runs" / "not-a-run").mkdir()
    (tmp_path / "runs" / "file").touch()
    answer = probe("list")
    lines = {line.split()[0]: line for line in answer.out.splitlines()[1:]}
    assert answer.code == 0
    assert set(lines) == {"good", "no-manifest", "noise", "future", "no-ranks"}
    assert lines["good"].endswith("ok")
    assert lines["no-manifest"].endswith("1 warn")
    assert lines["noise"].endswith("1 err")
    assert lines["future"].endswith("format 9.0")
    assert lines["no-ranks"].endswith("1 warn")


def test_a_hostile_name_is_one_harmless_line(probe, make_run: MakeRun) -> None:
    make_run("evil\x1b[31m\n[bold red]\u202e")
    answer = probe("list")
    assert answer.out.count("\n") == 2
    assert "evil\\x1b[31m\\n[bold red]\\u202e" in answer.out
    assert "\x1b" not in answer.out


def test_a_name_that_is_no_utf8_is_shown(probe, make_run: MakeRun, tmp_path: Path) -> None:
    target = os.fsencode(tmp_path / "runs") + b"/caf\xe9"
    shutil.move(make_run("demo"), os.fsdecode(target))
    assert "caf\\udce9" in probe("list").out
    assert json.loads(probe("list", "--json").out)[0]["name"] == "caf\udce9"


def test_json_has_stable_keys(probe, make_run: MakeRun) -> None:
    make_run("demo", config=RunConfig(precision=Precision.FP16, stage=2))
    answer = probe("list", "--json")
    (run,) = json.loads(answer.out)
    assert answer.err == ""
    assert run == {
        "name": "demo",
        "path": "runs/demo",
        "status": "finished",
        "why": "Every rank ended well.",
        "format_version": "1.0",
        "readable": True,
        "precision": "fp16",
        "stage": 2,
        "offload_optimizer": "device",
        "offload_params": "device",
        "world_size": 2,
        "ranks": 2,
        "steps": 3,
        "started_ns": STARTED_NS,
        "tags": [],
        "notes": "",
        "problems": [],
    }
