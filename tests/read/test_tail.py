"""Following a live run: every row once, and only what is new is read."""

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from building import file_of, make_run, metric_row, rows_in, step_row, write_rank

from probe.errors import UsageError
from probe.read import columns
from probe.read.run import load_run
from probe.read.tail import Tail
from probe.record.rank import RankWriter
from probe.record.run import RunWriter
from probe.schema.documents import Header, Manifest
from probe.schema.tables import METRICS, STEPS
from probe.seal import seal_run


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    return RunWriter.create(tmp_path, Manifest(world_size=4)).path


def steps_of(tail: Tail) -> list[tuple[int, int]]:
    return [(row["rank"], row["step"]) for row in tail.poll().rows.to_pylist()]


def append(run_dir: Path, content: bytes, rank: int = 0) -> None:
    with file_of(run_dir, METRICS, rank).open("ab") as file:
        file.write(content)


def line(step: int) -> bytes:
    return b'{"step":%d,"name":"a","value":1}\n' % step


def test_each_row_once_from_ranks_that_come_and_go(run_dir: Path) -> None:
    tail = Tail(run_dir, METRICS)
    assert steps_of(tail) == []
    first = RankWriter(run_dir, Header(rank=0))
    assert steps_of(tail) == []
    first.write(metric_row(0))
    assert steps_of(tail) == [(0, 0)]
    assert steps_of(tail) == []
    second = RankWriter(run_dir, Header(rank=3))
    for step in (1, 2):
        first.write(metric_row(step))
        second.write(metric_row(step))
    assert steps_of(tail) == [(0, 1), (0, 2), (3, 1), (3, 2)]
    second.write(step_row(9))  # Another table.
    assert steps_of(tail) == []
    shutil.rmtree(run_dir / "rank_00003")
    first.write(metric_row(3))
    assert steps_of(tail) == [(0, 3)]
    first.close()


def test_a_torn_line_waits_for_its_end(run_dir: Path) -> None:
    write_rank(run_dir, 0, [metric_row(0)])
    tail = Tail(run_dir, METRICS)
    assert steps_of(tail) == [(0, 0)]
    whole = line(1)
    for place in range(len(whole)):
        append(run_dir, whole[place : place + 1])
        news = tail.poll()
        assert news.rows.num_rows == (place == len(whole) - 1)
        assert len(news.problems) == (place < len(whole) - 1)
        assert not news.from_start


def test_only_new_bytes_are_parsed(run_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[bytes] = []
    read = columns.RowReader.read

    def count(self: columns.RowReader, content: bytes, first_line: int) -> Any:
        parsed.append(content)
        return read(self, content, first_line)

    monkeypatch.setattr(columns.RowReader, "read", count)
    write_rank(run_dir, 0, (metric_row(step) for step in range(1_000)))
    tail = Tail(run_dir, METRICS)
    tail.poll()
    assert sum(map(len, parsed)) == file_of(run_dir, METRICS).stat().st_size
    for step in range(1_000, 1_010):
        parsed.clear()
        append(run_dir, line(step) + b'{"torn')
        assert tail.poll().rows["step"].to_pylist() == [step]
        assert sum(map(len, parsed)) == len(line(step))
        with file_of(run_dir, METRICS).open("r+b") as file:
            file.truncate(file_of(run_dir, METRICS).stat().st_size - len(b'{"torn'))
    parsed.clear()
    tail.poll()
    assert parsed == []


def test_problems_name_the_line_of_the_file(run_dir: Path) -> None:
    write_rank(run_dir, 0, [metric_row(0)])
    tail = Tail(run_dir, METRICS)
    lines = []
    for content in (b"bad\n", line(2) + b"\n \n" + b"bad\n", b"bad\n" + line(7)):
        append(run_dir, content)
        lines += [problem.line for problem in tail.poll().problems]
    assert lines == [2, 6, 7]
    assert [item.line for item in load_run(run_dir).table(METRICS).problems] == lines


@pytest.mark.parametrize("how", ["cut", "replaced"])
def test_a_file_that_is_not_the_same_is_read_anew(how: str, run_dir: Path) -> None:
    write_rank(run_dir, 0, [metric_row(step) for step in range(5)])
    write_rank(run_dir, 1, [metric_row(7)])
    tail = Tail(run_dir, METRICS)
    assert len(steps_of(tail)) == 6
    path = file_of(run_dir, METRICS)
    if how == "cut":
        os.truncate(path, path.read_bytes().index(b"\n") + 1)
    else:
        path.with_name("new").write_bytes(b"".join(map(line, range(9))))
        path.with_name("new").replace(path)
    left = [(0, step) for step in range(1 if how == "cut" else 9)]
    news = tail.poll()
    assert news.from_start
    assert [(row["rank"], row["step"]) for row in news.rows.to_pylist()] == [*left, (1, 7)]
    assert not tail.poll().from_start
    append(run_dir, line(9))
    assert steps_of(tail) == [(0, 9)]


def test_a_run_that_is_sealed_meanwhile(tmp_path: Path) -> None:
    run_dir = make_run(tmp_path)
    tail = Tail(run_dir, METRICS)
    first = tail.poll()
    assert (first.rows.num_rows, first.sealed) == (6, False)
    seal_run(run_dir)
    for _ in range(2):
        news = tail.poll()
        assert (news.rows.num_rows, news.sealed, news.from_start) == (0, True, False)
        assert news.problems == ()
    assert len(rows_in(load_run(run_dir).table(METRICS))) == 6


def test_columns_are_chosen_and_checked(run_dir: Path) -> None:
    write_rank(run_dir, 0, [step_row(4, loss=float("nan"))])
    news = Tail(run_dir, STEPS, columns=["step", "rank"]).poll()
    assert news.rows.to_pylist() == [{"step": 4, "rank": 0}]
    with pytest.raises(UsageError, match="no column 'lost'"):
        Tail(run_dir, STEPS, columns=["lost"])
