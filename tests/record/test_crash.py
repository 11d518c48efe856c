"""Ranks that are killed at any moment leave every row whose line was complete."""

import json
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from building import by_table, everything, file_of, rows_in, same
from killed_writers import RANKS, row_at

from probe.read.run import check_run, load_run
from probe.read.tail import Tail
from probe.record.run import RunWriter
from probe.schema.documents import Manifest
from probe.schema.tables import STEPS, TABLES
from probe.schema.vocabulary import RunStatus, Severity

KILLS = 200
ROOT = Path(__file__).parents[2]


@pytest.fixture
def writers() -> Iterator[subprocess.Popen[str]]:
    script = Path(__file__).with_name("killed_writers.py")
    with subprocess.Popen(
        [sys.executable, str(script)],
        env={"PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        yield process
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(timeout=30) == 0


def kill(
    writers: subprocess.Popen[str], run_dir: Path, rows: int, seconds: float = 0.0
) -> list[int]:
    """Let four ranks write and be killed; how many rows each of them knew to be written."""
    assert writers.stdin is not None
    assert writers.stdout is not None
    writers.stdin.write(f"{run_dir}\t{rows}\t{seconds}\n")
    writers.stdin.flush()
    counts: list[int] = json.loads(writers.stdout.readline())
    return counts


def test_ranks_killed_at_two_hundred_moments_lose_no_whole_row(
    writers: subprocess.Popen[str], tmp_path: Path
) -> None:
    chance = random.Random(0)
    torn_files = 0
    whole_rows = 0
    for _ in range(KILLS):
        run_dir = RunWriter.create(tmp_path, Manifest(world_size=RANKS)).path
        acknowledged = kill(writers, run_dir, chance.randrange(40), chance.uniform(0.0, 0.002))

        run = load_run(run_dir)
        tables = everything(run)
        problems = [*run.problems, *(item for read in tables.values() for item in read.problems)]
        tailed = Tail(run_dir, STEPS).poll()

        for rank in run.ranks:
            of_rank = {
                name: [row for row in rows_in(loaded) if row.pop("rank") == rank]
                for name, loaded in tables.items()
            }
            count = sum(map(len, of_rank.values()))
            # The last row may be whole although the kill came before the word of it.
            assert acknowledged[rank] <= count <= acknowledged[rank] + 1
            meant = by_table(row_at(rank, position) for position in range(count))
            assert same(of_rank, meant)
            whole_rows += count
            for table in TABLES:
                path = file_of(run_dir, table, rank)
                newlines = path.read_bytes().count(b"\n") if path.exists() else 0
                assert newlines == len(of_rank[table.name])
        assert sum(acknowledged[rank] for rank in range(RANKS) if rank not in run.ranks) == 0
        assert tailed.rows.num_rows == tables["steps"].table.num_rows

        torn = [item for item in problems if "ends within a row" in item.what]
        assert max(Counter(item.file for item in torn).values(), default=0) <= 1
        others = [item for item in problems if item not in torn]
        # A rank that died before its first word has no folder, no header or no heartbeat.
        assert {item.severity for item in others} <= {Severity.WARNING}
        assert all("missing" in item.what or "no folder" in item.what for item in others), others
        assert run.verdict.status in (RunStatus.RUNNING, RunStatus.KILLED, RunStatus.UNKNOWN)
        torn_files += len(torn)
    # The moments were not all idle ones.
    assert whole_rows > 20 * KILLS
    assert torn_files > 0


def test_a_killed_rank_that_starts_again_loses_only_its_torn_line(
    writers: subprocess.Popen[str], tmp_path: Path
) -> None:
    run_dir = RunWriter.create(tmp_path, Manifest(world_size=RANKS)).path
    first = kill(writers, run_dir, 20)
    for table in TABLES:
        path = file_of(run_dir, table)
        if path.exists():
            path.write_bytes(path.read_bytes() + b'{"step":7,"be')

    second = kill(writers, run_dir, 20)

    run = load_run(run_dir)
    # Of steps that were done again one attempt counts; the lines of both are there.
    count = sum(_whole_lines(run_dir))
    assert sum(first) + sum(second) <= count <= sum(first) + sum(second) + 2 * RANKS
    errors = [item for item in check_run(run) if item.severity is Severity.ERROR]
    of_first_rank = Counter(item.file for item in errors if item.file.startswith("rank_00000"))
    assert set(of_first_rank.values()) == {1}


def _whole_lines(run_dir: Path) -> Iterator[bool]:
    for path in run_dir.glob("rank_*/*.jsonl"):
        for line in path.read_bytes().splitlines():
            with suppress(ValueError):
                yield bool(json.loads(line))
