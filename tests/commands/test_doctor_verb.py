"""`probe doctor`: every problem with its place and its remedy, and an exit code that tells."""

import json
from collections.abc import Callable
from pathlib import Path

MakeRun = Callable[..., Path]


def test_a_healthy_run(probe, make_run: MakeRun) -> None:
    make_run("demo")
    answer = probe("doctor", "demo")
    assert (answer.code, answer.err) == (0, "")
    assert answer.out == "demo: no problems in 9 tables of 2 ranks.\n"


def test_an_error_is_shown_and_told_by_the_exit_code(probe, make_run: MakeRun) -> None:
    run = make_run("demo")
    path = run / "rank_00001" / "steps.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([lines[0], b"\x00\x1b[2J\n", *lines[1:]]))
    answer = probe("doctor", "demo")
    assert answer.code == 1
    assert answer.out == (
        "error    rank_00001/steps.jsonl:2\n"
        "         is no steps row (JSON is malformed: invalid character (byte 0))\n"
        "         The line is left out; all others are read.\n"
        "\n"
        "demo: 1 error in 9 tables of 2 ranks.\n"
    )


def test_a_warning_alone_is_no_failure(probe, make_run: MakeRun) -> None:
    run = make_run("demo")
    with (run / "rank_00000" / "comm.jsonl").open("ab") as file:
        file.write(b"{torn")
    answer = probe("doctor", "demo")
    assert answer.code == 0
    assert "warning  rank_00000/comm.jsonl\n         ends within a row" in answer.out


def test_json(probe, make_run: MakeRun) -> None:
    run = make_run("demo")
    (run / "rank_00000" / "steps.jsonl").unlink()
    (run / "rank_00000" / "steps.jsonl").mkdir()
    answer = probe("doctor", "demo", "--json")
    assert (answer.code, answer.err) == (1, "")
    told = json.loads(answer.out)
    assert list(told) == ["name", "path", "status", "why", "errors", "problems"]
    assert told["errors"] == 1
    assert told["problems"] == [
        {
            "severity": "error",
            "file": "rank_00000/steps.jsonl",
            "line": None,
            "what": "is not a regular file",
            "hint": "A run holds plain files only; remove it or restore it from a copy.",
        }
    ]


def test_another_major_version_is_a_problem_here(
    probe, make_run: MakeRun, rewrite_manifest: Callable[..., None]
) -> None:
    rewrite_manifest(make_run("demo"), format_version="9.0")
    answer = probe("doctor", "demo")
    assert answer.code == 1
    assert "was written in format '9.0'" in answer.out
    assert answer.out.endswith("demo: 1 error in the documents; its tables were not read.\n")


def test_a_hostile_run_is_shown_and_not_obeyed(probe, make_run: MakeRun) -> None:
    run = make_run("evil\x1b[2J")
    (run / "manifest.json").write_text(
        '{"status": "\\u001b[2J[red]\\nforged", "world_size": 1e999}'
    )
    answer = probe("doctor", run)
    assert answer.code == 1
    assert "\x1b" not in answer.out
    assert "forged" not in [line.strip() for line in answer.out.splitlines()]
