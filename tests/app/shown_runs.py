"""A folder of runs of every kind that a page must be able to show."""

import json
import os
import socket
from enum import StrEnum
from pathlib import Path

from probe.adopt import adopt_traces
from probe.record.rank import RankWriter
from probe.record.run import RunWriter
from probe.schema.documents import Header
from probe.schema.layout import MANIFEST
from probe.schema.rows import StepRow
from tests.figures.drawn_run import PARAMETERS, made_rows, manifest_of, record_drawn_run
from tests.traces.made_traces import device_trace

NASTY = "<b>bold</b> $x^2$ :smile: [link](http://example.org) `code` <script>hurt()</script>"
STEPS = 40


class Kind(StrEnum):
    """What may be wrong or unusual with a run."""

    GOOD = "good"
    EMPTY = "empty"
    LIVE = "live"
    CRASHED = "crashed"
    CORRUPT = "corrupt"
    NAN = "nan"
    ONE_RANK = "one_rank"
    MANY_RANKS = "many_ranks"
    IMPORTED = "imported"
    FOREIGN = "foreign"


def record_every_kind(runs: Path) -> Path:
    """One run a kind, under its name."""
    record_drawn_run(
        runs,
        Kind.GOOD.value,
        steps=STEPS,
        names=(NASTY, *PARAMETERS[1:]),
        tags=[NASTY],
        notes=NASTY,
    )
    RunWriter.create(runs, manifest_of()).path.rename(runs / Kind.EMPTY.value)
    _unfinished(runs, pid=os.getpid()).rename(runs / Kind.LIVE.value)
    _crashed(runs)
    _corrupt(runs)
    _all_nan(runs)
    record_drawn_run(runs, Kind.ONE_RANK.value, ranks=1, steps=STEPS)
    record_drawn_run(runs, Kind.MANY_RANKS.value, ranks=64, steps=12)
    _imported(runs)
    _foreign(runs)
    return runs


def _unfinished(runs: Path, *, pid: int) -> Path:
    """A run whose ranks are in the midst of it."""
    path = RunWriter.create(runs, manifest_of(ranks=2, expected_steps=1000)).path
    rows = made_rows(ranks=2, steps=STEPS, slower=1.0, names=PARAMETERS)
    for rank, of_rank in rows.items():
        writer = RankWriter(path, Header(rank=rank, host=socket.gethostname(), pid=pid))
        for row in of_rank:
            writer.write(row)
        writer.beat(step=STEPS - 1)
    return path


def _crashed(runs: Path) -> None:
    """Ranks that fell silent long ago, the last line of one of them torn."""
    path = _unfinished(runs, pid=2**22 + 1).rename(runs / Kind.CRASHED.value)
    for file in path.glob("rank_*/heartbeat"):
        os.utime(file, (1_700_000_000, 1_700_000_000))
    torn = path / "rank_00001" / "steps.jsonl"
    torn.write_bytes(torn.read_bytes()[:-20])


def _corrupt(runs: Path) -> None:
    path = record_drawn_run(runs, Kind.CORRUPT.value, ranks=2, steps=STEPS)
    (path / MANIFEST).write_bytes(b'{"name": "\xff", "world_size": "many", "config": 7')
    steps = path / "rank_00000" / "steps.jsonl"
    lines = steps.read_bytes().splitlines(keepends=True)
    steps.write_bytes(b"".join([*lines[:5], b"\x00\xff nothing\n", b'{"step": "x"}\n', *lines[6:]]))
    (path / "rank_00001" / "memory.jsonl").write_bytes(b"[" * 5000)
    (path / "tables").mkdir()
    (path / "tables" / "comm.parquet").write_bytes(b"PAR1 no table PAR1")


def _all_nan(runs: Path) -> None:
    """Every loss and norm is nan, every step skipped."""
    path = RunWriter.create(runs, manifest_of(ranks=1)).path
    writer = RankWriter(path, Header(rank=0))
    for row in made_rows(ranks=1, steps=STEPS, slower=1.0, names=PARAMETERS)[0]:
        if isinstance(row, StepRow):
            facts = {name: getattr(row, name) for name in row.__struct_fields__}
            nan = float("nan")
            row = StepRow(**{**facts, "loss": nan, "grad_norm": nan, "skipped": True})
        writer.write(row)
    writer.close()
    path.rename(runs / Kind.NAN.value)


def _imported(runs: Path) -> None:
    job = runs.parent / "job"
    job.mkdir()
    for rank in range(2):
        made = device_trace()
        made.head["distributedInfo"] = {"backend": "nccl", "rank": rank, "world_size": 2}
        made.write(job / f"worker{rank}.pt.trace.json.gz")
    adopt_traces([job], runs).path.rename(runs / Kind.IMPORTED.value)


def _foreign(runs: Path) -> None:
    """Written by another major version."""
    path = record_drawn_run(runs, Kind.FOREIGN.value, ranks=1, steps=3)
    manifest = json.loads((path / MANIFEST).read_text())
    (path / MANIFEST).write_text(json.dumps({**manifest, "format_version": "9.0"}))
