"""`probe show`: one run in detail, for people and for programs; and how a run is named."""

import json
import math
from collections.abc import Callable
from pathlib import Path

import pytest

from probe.schema.documents import RunConfig

MakeRun = Callable[..., Path]


def test_show_tells_the_headline(probe, make_run: MakeRun) -> None:
    make_run("demo", expected_steps=5)
    answer = probe("show", "demo")
    assert answer.code == 0
    assert answer.out.startswith("demo  finished  Every rank ended well.\n")
    assert (
        "steps        3 of 5 recorded, 0 skipped\n"
        "step time    2.00 ms on the slowest rank (median of 3 steps)\n"
        "last loss    2.5 in step 2\n"
        "host peak    1.00 GB on rank 0\n"
        "traffic      100 B sent a step by the busiest rank (median)\n"
        "\n"
        "Nothing stands out in 3 steps.\n"
        "\n"
        "phase   median    share\n"
        "other  2.00 ms  100.0 %  ████████████████████████\n"
        "sum             100.0 %\n"
        "3 of 3 steps count\n"
        "noise 50.0 % (MAD / median), 95 % of the steps within 2.90 ms\n"
        "\n"
        "operation   phase     calls  payload  busy  exposed  busbw\n"
        "all_reduce  backward      0      0 B  0 ns     0 ns      –\n"
        "\n"
        "table        rows\n"
        "steps           6\n"
        "comm            6\n"
        "memory          6\n"
        "metrics         6\n"
    ) in answer.out


def test_a_sealed_run_shows_the_same(probe, make_run: MakeRun) -> None:
    make_run("demo")
    before = json.loads(probe("show", "demo", "--json").out)
    assert probe("seal", "demo").code == 0
    assert json.loads(probe("show", "demo", "--json").out) == before


def test_json_is_the_whole_of_it(probe, make_run: MakeRun) -> None:
    make_run("demo", loss=math.nan, config=RunConfig(settings={"clip": math.inf}))
    answer = probe("show", "demo", "--json")
    told = json.loads(answer.out, parse_constant=pytest.fail)
    assert answer.err == ""
    assert list(told) == [
        "name",
        "path",
        "status",
        "why",
        "ranks",
        "manifest",
        "headline",
        "findings",
        "analysis",
        "window",
        "table_rows",
        "problems",
    ]
    assert told["headline"] == {
        "recorded_steps": 3,
        "last_step": 2,
        "skipped_steps": 0,
        "profiled_steps": 0,
        "timed_steps": 3,
        "median_wall_ns": 2e6,
        "last_loss": "nan",
        "last_loss_step": 2,
        "loss_scale": None,
        "peak_device": None,
        "peak_ledger": None,
        "peak_rss": {"rank": 0, "peak_bytes": 10**9},
        "wire_bytes": 100.0,
    }
    assert told["manifest"]["config"]["settings"] == {"clip": "inf"}
    assert told["ranks"] == [0, 1]
    assert told["table_rows"]["steps"] == 6


def test_problems_are_counted(probe, make_run: MakeRun) -> None:
    run = make_run("demo")
    with (run / "rank_00001" / "steps.jsonl").open("ab") as file:
        file.write(b"nonsense\n{torn")
    answer = probe("show", "demo")
    assert answer.code == 0
    assert answer.out.endswith("\n1 error, 1 warning; `probe doctor` shows what and where.\n")


def test_another_major_version_is_refused_in_a_sentence(
    probe, make_run: MakeRun, rewrite_manifest: Callable[..., None]
) -> None:
    rewrite_manifest(make_run("demo"), format_version="9.0\x1b[2J")
    for verb in (["show"], ["show", "--json"], ["export", "--to", "csv", "-o", "out"], ["seal"]):
        answer = probe(*verb, "demo")
        assert answer.code == 2
        assert answer.out == ""
        assert "runs/demo was written in format '9.0" in answer.err
        assert answer.err.count("\n") == 1
        assert "\x1b" not in answer.err


def test_a_manifest_nested_without_end_costs_one_sentence(probe, make_run: MakeRun) -> None:
    run = make_run("demo")
    deep = b'{"config": {"settings": {"a": ' + b"[" * 800 + b"]" * 800 + b"}}}"
    (run / "manifest.json").write_bytes(deep)
    assert probe("show", "demo").code == 0
    answer = probe("show", "demo", "--json")
    said = "probe: The run's manifest is nested too deep to be printed as JSON.\n"
    # Python 3.12 prints this depth.
    assert (answer.code, answer.err) in ((2, said), (0, ""))


def test_a_run_is_named_by_path_name_part_or_latest(
    probe, make_run: MakeRun, tmp_path: Path
) -> None:
    make_run("20250101-gpt2-z2")
    newest = make_run("20250102-gpt2-z3", started_ns=1_750_000_001 * 10**9)
    for way in (
        "20250102-gpt2-z3",
        "20250102",
        "z3",
        "latest",
        newest,
        "runs/20250102-gpt2-z3",
        f"{newest}/",
    ):
        assert probe("show", way).out.startswith("20250102-gpt2-z3  "), way


def test_a_beginning_goes_before_a_part(probe, make_run: MakeRun) -> None:
    make_run("ab")
    make_run("xab")
    assert probe("show", "a").out.startswith("ab  ")
    assert probe("show", "xa").out.startswith("xab  ")


def test_a_name_goes_before_a_longer_one(probe, make_run: MakeRun) -> None:
    make_run("ab")
    make_run("ab-2")
    assert probe("show", "ab").out.startswith("ab  ")


def test_what_could_be_several_runs_names_them(probe, make_run: MakeRun) -> None:
    make_run("gpt2-a")
    make_run("gpt2-b\x1b[2J")
    answer = probe("show", "gpt2")
    assert answer.code == 2
    assert answer.err == (
        "probe: 'gpt2' could be any of 2 runs (gpt2-a, gpt2-b\\x1b[2J); write more of it.\n"
    )


def test_an_unknown_name_says_where_to_look(probe, make_run: MakeRun) -> None:
    make_run("demo")
    answer = probe("show", "nosuch")
    assert answer.code == 2
    assert answer.err == (
        "probe: There is no run 'nosuch' in runs nor at this path; "
        "`probe list runs` shows those that are there.\n"
    )


def test_latest_of_nothing(probe, tmp_path: Path) -> None:
    assert "runs does not exist" in probe("show", "latest").err
    (tmp_path / "runs").mkdir()
    assert probe("show", "latest").err == "probe: runs holds no run; name one by its path.\n"


def test_a_folder_or_a_file_that_is_no_run(probe, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    assert "folder holds no run" in probe("show", "folder").err
    answer = probe("show", "./file")
    assert answer.code == 2
    assert answer.err == (
        "probe: file is a file, not a run directory; "
        "`probe list DIR` shows the runs below a folder.\n"
    )
