"""What the launcher knows of a run in progress, from its directory alone."""

from pathlib import Path

from probe.launch.progress import Watcher
from probe.record.rank import RankWriter
from probe.record.run import RunWriter
from probe.schema.documents import Header, Manifest
from probe.schema.rows import StepRow

MS = 1_000_000


def test_the_time_that_is_left_is_known_once_the_steps_are(tmp_path: Path) -> None:
    run = RunWriter.create(tmp_path, Manifest(world_size=1))
    writer = RankWriter(run.path, Header(rank=0))
    told, silent = Watcher(run.path, 10), Watcher(run.path)
    assert told.look().remaining_ns is None
    for step in range(4):
        writer.write(StepRow(step=step, begin_ns=step, wall_ns=5 * MS, other_ns=5 * MS))
    assert told.look().remaining_ns == (10 - 4) * 5 * MS
    assert told.look().expected_steps == 10, "a second look without news forgets nothing"
    assert silent.look().remaining_ns is None
    writer.close()
