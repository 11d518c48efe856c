"""Whatever a file of a run may hold: the reader says so, reads the rest, and never raises."""

import itertools
import json
import os
import random
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from building import everything, file_of, make_run, metric_row, rows_in, same
from hypothesis import given, settings
from hypothesis import strategies as st
from measuring import GIB, read_apart

from probe.errors import FormatVersionError, NotARunError, UsageError
from probe.read.columns import MOST_PROBLEMS_PER_FILE
from probe.read.discovery import find_runs
from probe.read.loading import Loaded
from probe.read.problem import Problem
from probe.read.run import check_run, load_run
from probe.read.tail import Tail
from probe.schema.layout import HEADER, HEARTBEAT, MANIFEST, TABLES_DIR
from probe.schema.tables import METRICS, STEPS, TABLES
from probe.schema.vocabulary import Severity
from probe.seal import seal_run

LINE = b'{"step":7,"name":"a","value":1.0}\n'


def look_at(run_dir: Path) -> tuple[dict[str, Loaded], tuple[Problem, ...]]:
    """All that a reader does with a run; that none of it raises is half of each test."""
    run = load_run(run_dir)
    problems = check_run(run)
    assert [item.path for item in find_runs(run_dir.parent)] == [run_dir]
    for table in TABLES:
        Tail(run_dir, table).poll()
    assert all(problem.what and problem.hint and problem.file for problem in problems)
    return everything(run), problems


def files_of(run_dir: Path) -> list[str]:
    return sorted(str(path.relative_to(run_dir)) for path in run_dir.rglob("*") if path.is_file())


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """One run, unsealed and sealed."""
    unsealed = make_run(tmp_path_factory.mktemp("unsealed"))
    sealed = tmp_path_factory.mktemp("sealed") / unsealed.name
    shutil.copytree(unsealed, sealed)
    seal_run(sealed)
    return unsealed, sealed


@pytest.fixture
def copies(whole: tuple[Path, Path], tmp_path: Path) -> Iterator[Path]:
    """Fresh copies of both, one after the other."""
    return (shutil.copytree(run, tmp_path / f"{n}" / "run") for n, run in enumerate(whole))


@pytest.mark.parametrize(
    "content",
    [b"", b"\0" * 4096, b"\xff\xfe\x80" * 100, b"\n" * 100, b"[" * 100_000, b"9" * 100_000],
    ids=["empty", "zeros", "invalid UTF-8", "newlines", "nesting", "digits"],
)
def test_other_content_in_any_file(content: bytes, copies: Iterator[Path]) -> None:
    for run_dir in copies:
        before = {name: rows_in(loaded) for name, loaded in everything(load_run(run_dir)).items()}
        for file in files_of(run_dir):
            path = run_dir / file
            kept = path.read_bytes()
            path.write_bytes(content)

            tables, problems = look_at(run_dir)

            harmless = content in (b"", b"\n" * 100) and file.endswith(".jsonl")
            assert [problem.file for problem in problems] == ([] if harmless else [file])
            # Only the damaged file's own rows are missing.
            for name, rows in before.items():
                if file.startswith("rank_") and Path(file).stem == name:
                    rows = [row for row in rows if row["rank"] != int(file[5:10])]
                if file == f"tables/{name}.parquet":
                    rows = []
                assert same(rows_in(tables[name]), rows)
            path.write_bytes(kept)


def test_a_folder_or_a_pipe_in_place_of_any_file(copies: Iterator[Path]) -> None:
    for run_dir in copies:
        for file, make in itertools.product(files_of(run_dir), (Path.mkdir, os.mkfifo)):
            path = run_dir / file
            kept = path.read_bytes()
            path.unlink()
            make(path)

            _, problems = look_at(run_dir)

            assert [problem.file for problem in problems] == [file]
            assert "is not a regular file" in problems[0].what
            shutil.rmtree(path) if path.is_dir() else path.unlink()
            path.write_bytes(kept)


def test_a_file_in_place_of_a_folder(copies: Iterator[Path]) -> None:
    for run_dir in copies:
        for folder in [path for path in run_dir.iterdir() if path.is_dir()]:
            away = run_dir.parent / "away"
            folder.rename(away)
            folder.write_bytes(b"not a folder")
            _, problems = look_at(run_dir)
            assert problems[0].severity is Severity.ERROR
            assert {problem.file.split("/")[0] for problem in problems} <= {folder.name, MANIFEST}
            folder.unlink()
            away.rename(folder)


def test_a_missing_rank(copies: Iterator[Path]) -> None:
    for run_dir in copies:
        shutil.rmtree(run_dir / "rank_00000")
        tables, problems = look_at(run_dir)
        (missing,) = [item for item in problems if item.file == MANIFEST]
        assert "speaks of 2 ranks; 1 have no folder (0)" in missing.what
        ranks = {row["rank"] for row in rows_in(tables["steps"])}
        assert ranks == ({1} if not (run_dir / TABLES_DIR).exists() else {0, 1})


def test_each_document_may_be_missing(copies: Iterator[Path]) -> None:
    for run_dir in copies:
        for file in (MANIFEST, f"rank_00001/{HEADER}", f"rank_00001/{HEARTBEAT}"):
            (run_dir / file).rename(run_dir / "away")
            tables, problems = look_at(run_dir)
            assert [(item.file, item.what) for item in problems] == [(file, "is missing")]
            assert tables["steps"].table.num_rows == 6
            (run_dir / "away").rename(run_dir / file)


@settings(max_examples=60)
@given(
    seed=st.integers(0, 2**32),
    pick=st.integers(0, 10**6),
    offset=st.integers(0, 3_000),
    sealed=st.booleans(),
)
def test_noise_in_any_file(
    seed: int, pick: int, offset: int, sealed: bool, whole: tuple[Path, Path]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        run_dir = shutil.copytree(whole[sealed], Path(folder) / "run")
        files = files_of(run_dir)
        with (run_dir / files[pick % len(files)]).open("r+b") as file:
            file.seek(offset)
            file.write(random.Random(seed).randbytes(10_000))
        look_at(run_dir)


@settings(max_examples=150)
@given(
    pick=st.integers(0, len(TABLES) - 1),
    flips=st.lists(
        st.tuples(st.floats(0, 1, exclude_max=True), st.integers(1, 255)), min_size=1, max_size=4
    ),
    in_footer=st.booleans(),
)
def test_flipped_bits_in_parquet(
    pick: int, flips: list[tuple[float, int]], in_footer: bool, whole: tuple[Path, Path]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        run_dir = shutil.copytree(whole[1], Path(folder) / "run")
        path = run_dir / TABLES_DIR / TABLES[pick].sealed_name
        content = bytearray(path.read_bytes())
        start = len(content) * 2 // 3 if in_footer else 0
        for place, mask in flips:
            content[start + int(place * (len(content) - start))] ^= mask
        path.write_bytes(content)
        run = load_run(run_dir)
        for ranks in (None, [0], [1]):
            run.table(TABLES[pick], ranks=ranks)


def test_a_line_of_100_mb_costs_itself_and_little_memory(tmp_path: Path) -> None:
    run_dir = make_run(tmp_path, {0: [metric_row(1)]})
    with file_of(run_dir, METRICS).open("ab") as file:
        file.write(b'{"step":2,"name":"')
        for _ in range(100):
            file.write(b"x" * 10**6)
        file.write(b'"}\n' + LINE)
    with file_of(run_dir, STEPS).open("ab") as file:
        for _ in range(100):
            file.write(b"\0" * 10**6)
    result = read_apart(run_dir)
    assert result["rows"]["metrics"] == 2
    assert any("line of 100000021 bytes" in what for what in result["problems"])
    assert any("ends within a row (100000000 bytes" in what for what in result["problems"])
    assert result["peak_bytes"] < GIB


def test_a_manifest_of_another_major_version(whole: tuple[Path, Path], tmp_path: Path) -> None:
    run_dir = shutil.copytree(whole[0], tmp_path / "run")
    manifest = json.loads((run_dir / MANIFEST).read_text())
    manifest["format_version"] = "2.0\x1b[31m" + "9" * 1000
    (run_dir / MANIFEST).write_text(json.dumps(manifest))

    tables, problems = look_at(run_dir)

    (problem,) = problems
    assert problem.severity is Severity.ERROR
    assert "reads 1.x" in problem.what
    assert len(problem.what) < 150
    assert "\x1b" not in problem.what
    assert all(loaded.table.num_rows == 0 for loaded in tables.values())
    with pytest.raises(FormatVersionError):
        seal_run(run_dir)
    with pytest.raises(UsageError, match="no column 'nothing'"):
        load_run(run_dir).table("steps", columns=["nothing"])


def test_hostile_lines_cost_themselves(tmp_path: Path) -> None:
    bad = [
        b'{"step":' + b"9" * 400 + b',"name":"a","value":1}\n',
        b'{"step":9223372036854775808,"name":"a","value":1}\n',
        b'{"step":1,"name":7,"value":1}\n',
        b'{"step":1,"name":"a","value":[]}\n',
        b'{"step":1,"name":"a"}\n',
        b'{"step":1,"name":"a","value":null}\n',
        b'{"step":1,"name":"\\ud800","value":1}\n',
        b'{"step":1,"name":"\xff","value":1}\n',
        b'{"step":1,"name":"a","value":1,"x":' + b"[" * 50_000 + b"]" * 50_000 + b"}\n",
        b'{"step":1,"name":"a","value":1}{"step":1,"name":"a","value":1}\n',
        b'"step"\n',
        b"null\n",
        b"\0\n",
    ]
    good = [
        LINE,
        b'{"step":1,"step":2,"name":"a","value":1}\n',
        b'{"step":3,"name":"a","value":1e999,"unknown":{"x":[1]}}\r\n',
        b" \t\n",
        b"\n",
    ]
    run_dir = make_run(tmp_path, {0: [metric_row(0)]})
    file_of(run_dir, METRICS).write_bytes(b"".join(bad[:6] + good + bad[6:] + [LINE]))

    tables, problems = look_at(run_dir)

    steps = [row["step"] for row in rows_in(tables["metrics"])]
    assert sorted(steps) in ([2, 7, 7], [2, 3, 7, 7])
    lines = [problem.line for problem in problems if problem.line != 9]
    assert lines == [1, 2, 3, 4, 5, 6, *range(12, 19)]


def test_thousands_of_bad_lines_are_told_in_few_problems(tmp_path: Path) -> None:
    run_dir = make_run(tmp_path, {0: [metric_row(0)]})
    with file_of(run_dir, METRICS).open("ab") as file:
        file.write(b"nonsense\n" * 5_000 + LINE)
    tables, problems = look_at(run_dir)
    assert tables["metrics"].table.num_rows == 2
    assert len(problems) == MOST_PROBLEMS_PER_FILE + 1
    assert f"{5_000 - MOST_PROBLEMS_PER_FILE} more lines" in problems[-1].what


def test_a_run_removed_after_it_was_opened(whole: tuple[Path, Path], tmp_path: Path) -> None:
    run_dir = shutil.copytree(whole[0], tmp_path / "run")
    run = load_run(run_dir)
    tail = Tail(run_dir, STEPS)
    assert tail.poll().rows.num_rows == 6
    shutil.rmtree(run_dir)
    for problems in (run.table("steps").problems, tail.poll().problems):
        (problem,) = problems
        assert "cannot be listed any more" in problem.what
    check_run(run)


@pytest.mark.parametrize("path", ["nothing", "file", "empty", "file/below"])
def test_what_is_no_run_is_said_in_a_sentence(path: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "empty").mkdir()
    with pytest.raises(NotARunError, match="probe list DIR"):
        load_run(tmp_path / path)
