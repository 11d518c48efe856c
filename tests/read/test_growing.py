"""A table that grows: whole at every look, equal to a load, unchanged while nothing comes."""

import os

from probe.read.fingerprint import fingerprint
from probe.read.growing import GrowingTable
from probe.read.run import load_run
from probe.record.rank import RankWriter
from probe.record.run import RunWriter
from probe.schema.documents import Header, Manifest
from probe.schema.tables import STEPS
from probe.seal import seal_run
from tests.building import make_run, step_row

COLUMNS = ("rank", "step", "wall_ns")


def test_every_look_is_what_a_load_gives_through_growth_and_sealing(tmp_path) -> None:
    run = RunWriter.create(tmp_path, Manifest(world_size=2))
    writers = [RankWriter(run.path, Header(rank=rank)) for rank in range(2)]
    growing = GrowingTable(run.path, STEPS, columns=COLUMNS)
    assert not growing.look().rows.num_rows
    versions = set()
    for step in range(5):
        for writer in writers:
            writer.write(step_row(step))
        grown = growing.look()
        assert grown.rows.equals(load_run(run.path).table(STEPS, columns=COLUMNS).table)
        assert growing.look() is grown
        versions.add(grown.version)
    assert len(versions) == 5
    for writer in writers:
        writer.close()
    seal_run(run.path)
    sealed = growing.look()
    assert sealed.rows.equals(load_run(run.path).table(STEPS, columns=COLUMNS).table)
    assert growing.look() is sealed


def test_a_fingerprint_changes_with_every_table_and_not_with_a_heartbeat(tmp_path) -> None:
    path = make_run(tmp_path, steps=2)
    before = fingerprint(path)
    assert fingerprint(path) == before
    os.utime(path / "rank_00000" / "heartbeat")
    assert fingerprint(path) == before
    for name in ("manifest.json", "rank_00000/steps.jsonl", "rank_00001/comm.jsonl"):
        with (path / name).open("ab") as file:
            file.write(b" ")
        now = fingerprint(path)
        assert now != before, name
        before = now
