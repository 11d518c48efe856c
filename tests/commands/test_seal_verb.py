"""`probe seal`: what it says before and after."""

from collections.abc import Callable
from pathlib import Path

from probe.schema.vocabulary import RunStatus

MakeRun = Callable[..., Path]


def test_sealing_reports_each_table(probe, make_run: MakeRun) -> None:
    run = make_run("demo", steps=200)
    answer = probe("seal", "demo")
    assert (answer.code, answer.err) == (0, "")
    lines = answer.out.splitlines()
    assert lines[0].split() == ["table", "rows", "JSONL", "Parquet", "ratio"]
    assert [line.split()[:2] for line in lines[1:6]] == [
        ["steps", "400"],
        ["comm", "400"],
        ["memory", "400"],
        ["metrics", "400"],
        ["all", "1,600"],
    ]
    assert lines[6:] == ["", "demo is sealed."]
    assert not (run / "rank_00000" / "steps.jsonl").exists()


def test_sealing_twice_does_nothing(probe, make_run: MakeRun) -> None:
    make_run("demo")
    probe("seal", "demo")
    answer = probe("seal", "demo")
    assert answer.code == 0
    assert answer.out == "demo was sealed already; there was nothing to do.\n"


def test_damaged_files_are_named(probe, make_run: MakeRun) -> None:
    run = make_run("demo")
    with (run / "rank_00000" / "steps.jsonl").open("ab") as file:
        file.write(b"nonsense\n")
    answer = probe("seal", "demo")
    assert answer.code == 0
    assert answer.out.endswith(
        "rank_00000/steps.jsonl.damaged was kept: it holds lines that are no rows.\n"
    )


def test_a_running_run_is_refused_unless_forced(probe, make_run: MakeRun) -> None:
    run = make_run("demo", status=RunStatus.RUNNING)
    heartbeat = run / "rank_00000" / "heartbeat"
    heartbeat.write_bytes(heartbeat.read_bytes().replace(b'"closed"', b'"alive" '))
    answer = probe("seal", "demo")
    assert answer.code == 2
    assert answer.out == ""
    assert answer.err.startswith("probe: runs/demo is running (")
    assert answer.err.endswith("or seal it all the same with --force.\n")
    assert probe("seal", "demo", "--force").code == 0
