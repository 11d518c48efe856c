"""`probe export`: the same rows in files of other programs, and nothing that could do harm."""

import csv
import json
import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from probe.read.loading import Loaded, load_table
from probe.read.run import load_run
from probe.read.words import spell_out

MakeRun = Callable[..., Path]


def test_each_table_with_rows_gets_a_file(probe, make_run: MakeRun, tmp_path: Path) -> None:
    make_run("demo")
    answer = probe("export", "demo", "--to", "csv", "-o", "out")
    assert (answer.code, answer.err) == (0, "")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "comm.csv",
        "memory.csv",
        "metrics.csv",
        "steps.csv",
    ]
    assert answer.out.splitlines()[0].split() == ["table", "rows", "size", "file"]
    assert [(*line.split()[:2], line.split()[-1]) for line in answer.out.splitlines()[1:]] == [
        ("steps", "6", "out/steps.csv"),
        ("comm", "6", "out/comm.csv"),
        ("memory", "6", "out/memory.csv"),
        ("metrics", "6", "out/metrics.csv"),
    ]


def test_a_table_asked_for_by_name_is_written_even_if_empty(
    probe, make_run: MakeRun, tmp_path: Path
) -> None:
    make_run("demo")
    answer = probe("export", "demo", "--to", "parquet", "-o", "out", "--table", "overflow")
    assert answer.code == 0
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["overflow.parquet"]
    assert pq.read_table(tmp_path / "out/overflow.parquet").num_rows == 0


@pytest.mark.parametrize("sealed", [False, True])
def test_parquet_holds_what_the_reader_gives(
    probe, make_run: MakeRun, tmp_path: Path, sealed: bool
) -> None:
    run = make_run("demo", loss=math.nan)
    if sealed:
        probe("seal", "demo")
    probe("export", "demo", "--to", "parquet", "-o", "out")
    expected = spell_out(load_run(run).table("steps").table)
    written = pq.read_table(tmp_path / "out/steps.parquet")
    assert written.schema.equals(expected.schema)
    assert repr(written.to_pylist()) == repr(expected.to_pylist())


@pytest.mark.parametrize("sealed", [False, True])
def test_jsonl_is_the_writers_own_line_with_the_rank_in_front(
    probe, make_run: MakeRun, tmp_path: Path, sealed: bool
) -> None:
    run = make_run("demo", loss=-math.inf)
    own = {
        table: b"".join(
            b'{"rank":%d,' % rank + line[1:]
            for rank in range(2)
            for line in (run / f"rank_0000{rank}" / f"{table}.jsonl")
            .read_bytes()
            .splitlines(keepends=True)
        )
        for table in ("steps", "comm", "memory", "metrics")
    }
    if sealed:
        probe("seal", "demo")
    probe("export", "demo", "--to", "jsonl", "-o", "out")
    for table, lines in own.items():
        assert (tmp_path / "out" / f"{table}.jsonl").read_bytes() == lines


def test_csv_says_nan_and_inf_in_words_and_missing_by_nothing(
    probe, make_run: MakeRun, tmp_path: Path
) -> None:
    for value, word in ((math.nan, "nan"), (math.inf, "inf"), (-math.inf, "-inf")):
        make_run(f"run-{word}", loss=value)
        probe("export", f"run-{word}", "--to", "csv", "-o", f"out-{word}")
        with (tmp_path / f"out-{word}" / "steps.csv").open(newline="") as file:
            rows = list(csv.DictReader(file))
        assert {row["loss"] for row in rows} == {word}
        assert {row["grad_norm"] for row in rows} == {""}
        assert [row["rank"] for row in rows] == ["0"] * 3 + ["1"] * 3


@pytest.mark.parametrize(
    ("name", "cell"),
    [
        ("=cmd|' /C calc'!A0", "'=cmd|' /C calc'!A0"),
        ("+1", "'+1"),
        ("-1", "'-1"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("\t=1", "'\t=1"),
        ("\r=1", "'\r=1"),
        ("\n=1", "'\n=1"),
        ('say "a,b"\n=2', 'say "a,b"\n=2'),
        ("a=1", "a=1"),
        ("", ""),
    ],
)
def test_a_csv_cell_is_never_a_formula(
    probe, make_run: MakeRun, tmp_path: Path, name: str, cell: str
) -> None:
    make_run("demo", metric=name)
    probe("export", "demo", "--to", "csv", "-o", "out", "--table", "metrics")
    with (tmp_path / "out/metrics.csv").open(newline="") as file:
        assert {row["name"] for row in csv.DictReader(file)} == {cell}
    # Where no spreadsheet looks, the name is as it was.
    probe("export", "demo", "--to", "jsonl", "-o", "out", "--table", "metrics")
    assert json.loads((tmp_path / "out/metrics.jsonl").read_bytes().split(b"\n")[0])["name"] == name


def test_a_list_in_csv_is_json(probe, make_run: MakeRun, tmp_path: Path) -> None:
    run = make_run("demo", ranks=1)
    line = b'{"step":0,"parameter":"w","role":"gradient","exponent_elements":[1,2,3]}\n'
    (run / "rank_00000" / "numerics.jsonl").write_bytes(line)
    probe("export", "demo", "--to", "csv", "-o", "out", "--table", "numerics")
    with (tmp_path / "out/numerics.csv").open(newline="") as file:
        (row,) = csv.DictReader(file)
    assert json.loads(row["exponent_elements"]) == [1, 2, 3]


def test_ranks_are_chosen(probe, make_run: MakeRun, tmp_path: Path) -> None:
    make_run("demo", ranks=3)
    chosen = ("--table", "steps", "--rank", "2", "--rank", "0")
    probe("export", "demo", "--to", "parquet", "-o", "out", *chosen)
    ranks = pq.read_table(tmp_path / "out/steps.parquet")["rank"].to_pylist()
    assert ranks == [0] * 3 + [2] * 3


def test_an_unknown_rank_is_refused(probe, make_run: MakeRun, tmp_path: Path) -> None:
    make_run("demo", ranks=3)
    answer = probe("export", "demo", "--to", "csv", "-o", "out", "--rank", "7")
    assert answer.code == 2
    assert answer.err == "probe: runs/demo has no rank 7; it has 0 to 2.\n"
    assert not (tmp_path / "out").exists()


def test_nothing_is_overwritten_unless_forced(probe, make_run: MakeRun, tmp_path: Path) -> None:
    make_run("demo")
    (tmp_path / "out").mkdir()
    (tmp_path / "out/comm.csv").write_text("mine")
    arguments = ("export", "demo", "--to", "csv", "-o", "out")
    answer = probe(*arguments)
    assert answer.code == 2
    assert answer.err == (
        "probe: out/comm.csv is there already; choose another folder, or replace it with --force.\n"
    )
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["comm.csv"]
    assert (tmp_path / "out/comm.csv").read_text() == "mine"
    assert probe(*arguments, "--force").code == 0
    assert (tmp_path / "out/comm.csv").read_text() != "mine"


def test_no_file_of_another_run_is_left_beside_forced_ones(
    probe, make_run: MakeRun, tmp_path: Path
) -> None:
    make_run("demo")
    (tmp_path / "out").mkdir()
    (tmp_path / "out/overflow.csv").write_text("of another run")
    assert probe("export", "demo", "--to", "csv", "-o", "out", "--force").code == 0
    assert not (tmp_path / "out/overflow.csv").exists()


def test_damaged_rows_are_left_out_and_told(probe, make_run: MakeRun, tmp_path: Path) -> None:
    run = make_run("demo")
    with (run / "rank_00000" / "steps.jsonl").open("ab") as file:
        file.write(b"nonsense\n")
    answer = probe("export", "demo", "--to", "jsonl", "-o", "out")
    assert answer.code == 0
    assert answer.err == "1 error on the way; `probe doctor` shows what and where.\n"
    assert len((tmp_path / "out/steps.jsonl").read_bytes().splitlines()) == 6


def load_in_little_memory(load: Callable[..., Loaded], *given: Any, **options: Any) -> Loaded:
    return load(*given, **{**options, "limit_bytes": 10_000})


def test_a_table_that_does_not_fit_is_refused_and_leaves_nothing(
    probe, make_run: MakeRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_run("demo", steps=500)
    monkeypatch.setattr("probe.read.run.load_table", partial(load_in_little_memory, load_table))
    answer = probe("export", "demo", "--to", "csv", "-o", "out")
    assert answer.code == 2
    assert "holds more than the memory limit" in answer.err
    assert not list((tmp_path / "out").iterdir())


def test_a_folder_that_cannot_be_made_is_a_sentence(
    probe, make_run: MakeRun, tmp_path: Path
) -> None:
    make_run("demo")
    (tmp_path / "file").touch()
    answer = probe("export", "demo", "--to", "csv", "-o", "file/out")
    assert answer.code == 2
    assert answer.err == (
        "probe: Cannot export into file/out (Not a directory); "
        "choose another folder with --output.\n"
    )
