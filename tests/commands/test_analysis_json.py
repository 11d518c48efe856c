"""What was concluded is told to programs whole, and in numbers that JSON has."""

import json

import pytest

from probe.analyse.run_facts import run_facts
from probe.commands.machine import print_json
from probe.schema.documents import Manifest
from probe.schema.rows import CommCallRow
from probe.schema.tables import TABLES
from probe.schema.vocabulary import CollectiveOp, Phase
from probe.telling.analysis_json import analysis_json
from tests.analyse.hand_built import table_of
from tests.analyse.made_run import MB, facts_of


def printed(value, capsys):
    print_json(value)
    return json.loads(capsys.readouterr().out, parse_constant=pytest.fail)


def call(step, rank):
    op = CollectiveOp.ALL_GATHER
    return [
        CommCallRow(
            step=step, sequence=step, phase=Phase.FORWARD, op=op, wire_op=op, end_ns=10 + rank
        )
    ]


def test_every_conclusion_is_there(capsys):
    told = printed(analysis_json(facts_of(more=call)), capsys)
    assert told["steps"]["counted"] == 60
    assert sum(item["share"] for item in told["phases"]) == pytest.approx(1)
    assert told["memory"]["peak"]["held_bytes"]["device"]["params"] == 200 * MB
    assert told["memory"]["rank_peak_bytes"]["3"] == 8_200 * MB
    assert told["communication"]["operations"][0]["busbw_bytes_per_s"] == 15e9
    assert told["waiting"]["waited_ns"] == {"0": 0, "1": 60, "2": 120, "3": 180}
    assert told["loss_scale"]["recommended_initial_power"] == 16
    assert [name for name, value in told.items() if value is None] == ["lost_updates", "offload"]


def test_a_run_that_tells_nothing_is_told_as_such(capsys):
    tables = {table: table_of(table, {}) for table in TABLES}
    told = printed(analysis_json(run_facts(Manifest(), tables)), capsys)
    assert told["memory"] is None
    assert told["phases"] == []
