"""A job to be killed: for each line on stdin, four ranks write until SIGKILL takes them.

A line says where and when: `DIRECTORY ROWS SECONDS`, the kill comes that long after rank 0 has
written so many rows. The answer is one JSON line: how many rows of each rank had been written for
certain when it died. Only the recording side is loaded here.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path

from probe.record.rank import RankWriter
from probe.schema.documents import Header
from probe.schema.rows import EventRow, MetricRow, NumericsRow, Row, StepRow
from probe.schema.vocabulary import EventKind, Phase, TensorRole

RANKS = 4
MOST_ROWS = 100
"""Rows after which a rank waits for its end: on a busy machine the others could run far ahead."""


def row_at(rank: int, position: int) -> Row:
    """The row that a rank writes at a position; every eighth is so long that a kill can tear it."""
    match position % 8:
        case 0:
            return NumericsRow(
                step=position,
                parameter=f"layer.{rank}",
                role=TensorRole.GRADIENT,
                exponent_elements=[10**18 + position] * 1_500,
            )
        case 1 | 2 | 3:
            return StepRow(step=position, begin_ns=rank, wall_ns=position, loss=float("nan"))
        case 4:
            return EventRow(time_ns=position, kind=EventKind.REGION, message="é" * (position % 50))
        case _:
            return MetricRow(step=position, name=f"of {rank}", value=position / 3)


def write_until_killed(run_dir: Path, rank: int, written_fd: int) -> None:
    """Write rows, and acknowledge each one after its write."""
    writer = RankWriter(run_dir, Header(rank=rank, pid=os.getpid()))
    for position in range(MOST_ROWS):
        writer.write(row_at(rank, position))
        assert writer.stop_reason == ""
        os.write(written_fd, b".")
        if position % 8 == 0:
            writer.beat(step=position, phase=Phase.OTHER)
    signal.pause()


def kill_after(run_dir: Path, rows: int, seconds: float) -> list[int]:
    """Start the ranks, kill them all, and count what they acknowledged."""
    children = []
    for rank in range(RANKS):
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                write_until_killed(run_dir, rank, writing)
            finally:
                os._exit(1)
        os.close(writing)
        children.append((pid, reading))
    seen = sum(len(os.read(children[0][1], 1)) for _ in range(rows))
    time.sleep(seconds)
    for pid, _ in children:
        os.kill(pid, signal.SIGKILL)
    acknowledged = []
    for pid, reading in children:
        _, how = os.waitpid(pid, 0)
        assert os.WIFSIGNALED(how), how
        with os.fdopen(reading, "rb") as pipe:
            acknowledged.append(len(pipe.read()))
    acknowledged[0] += seen
    return acknowledged


def main() -> None:
    for line in sys.stdin:
        directory, rows, seconds = line.split("\t")
        print(json.dumps(kill_after(Path(directory), int(rows), float(seconds))), flush=True)


if __name__ == "__main__":
    main()
