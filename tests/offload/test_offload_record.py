"""What a run records of its offload: every byte by route, time in its phase, state on its tier."""

from pathlib import Path
from typing import Any

import pytest

from probe.schema.tables import EVENTS, MEMORY, OFFLOAD, STEPS
from probe.schema.vocabulary import EventKind, Phase, Precision, Tier
from tests.engine.cases import config
from tests.engine.team import Team
from tests.offload.offloaded import policies
from tests.telemetry.recorded import begin, micro_batch, recording_into, rows_of

STEPS_RUN = 4


def recorded(run_dir: str, folder: str, stage: int, place: str) -> dict[str, Any]:
    with recording_into(run_dir):
        trainer = begin(
            config(
                stage,
                precision=Precision.BF16,
                zero={"reduce_bucket_elements": 3000, "sub_group_elements": 500},
                **policies(place, folder),
            )
        )
        for number in range(STEPS_RUN):
            micro_batch(trainer, number)
        owned = sum(segment.elements for segment in trainer.segments)
        trainer.close()
    return {"owned": owned}


def moved(rows: list[dict[str, Any]], rank: int, step: int) -> dict[tuple[str, str, str], int]:
    return {
        (row["tier"], row["direction"], row["category"]): row["moved_bytes"]
        for row in rows
        if row["rank"] == rank and row["step"] == step
    }


@pytest.mark.parametrize("stage", [1, 2, 3])
def test_states_on_disk_are_read_and_written_once_a_step(
    pair: Team, tmp_path: Path, stage: int
) -> None:
    arguments = {"folder": str(tmp_path), "stage": stage, "place": "optimizer to disk"}
    facts = pair.run(recorded, run_dir=str(tmp_path / "run"), **arguments)
    rows = rows_of(tmp_path / "run", OFFLOAD)
    for rank, told in enumerate(facts):
        elements = told["owned"]
        total: dict[tuple[str, str, str], int] = {}
        for step in range(STEPS_RUN):
            for route, size in moved(rows, rank, step).items():
                total[route] = total.get(route, 0) + size
        # In the first step there are no states yet to be read, and what the update before the
        # first step put there is counted in it too; the last write may end after the last step.
        assert total["host", "store", "grads"] == STEPS_RUN * 2 * elements
        assert total["host", "fetch", "params"] == STEPS_RUN * 2 * elements
        for category, width in (("master_params", 4), ("optimizer_states", 8)):
            read, written = total["disk", "fetch", category], total["disk", "store", category]
            assert (STEPS_RUN - 1) * width * elements <= read
            assert (STEPS_RUN - 1) * width * elements <= written
    assert all(row["busy_ns"] == row["exposed_ns"] == 0 for row in rows if row["tier"] == "host")
    assert all(row["busy_ns"] > 0 for row in rows if row["tier"] == "disk" and row["moved_bytes"])
    assert all(row["queue_depth"] >= 1 for row in rows)


def test_phases_still_sum_and_waiting_has_its_own(pair: Team, tmp_path: Path) -> None:
    arguments = {"folder": str(tmp_path), "stage": 3, "place": "all to disk"}
    pair.run(recorded, run_dir=str(tmp_path / "run"), **arguments)
    exposed: dict[tuple[int, int], int] = {}
    for row in rows_of(tmp_path / "run", OFFLOAD):
        at = row["rank"], row["step"]
        exposed[at] = exposed.get(at, 0) + row["exposed_ns"]
    waited = 0
    for row in rows_of(tmp_path / "run", STEPS):
        assert sum(row[f"{phase}_ns"] for phase in Phase) == row["wall_ns"]
        # The clock is read a moment before and after.
        assert exposed[row["rank"], row["step"]] <= row["offload_wait_ns"]
        assert row["offload_wait_ns"] - exposed[row["rank"], row["step"]] < 0.1 * row["wall_ns"]
        waited += row["offload_wait_ns"]
    assert waited > 0


@pytest.mark.parametrize(
    ("place", "states", "params"),
    [
        ("optimizer to host", Tier.HOST, Tier.DEVICE),
        ("all to host", Tier.HOST, Tier.HOST),
        ("all to disk", Tier.DISK, Tier.DISK),
    ],
)
def test_the_ledger_knows_every_tier(
    pair: Team, tmp_path: Path, place: str, states: Tier, params: Tier
) -> None:
    arguments = {"folder": str(tmp_path), "stage": 3, "place": place}
    facts = pair.run(recorded, run_dir=str(tmp_path / "run"), **arguments)
    for row in rows_of(tmp_path / "run", MEMORY):
        elements = facts[row["rank"]]["owned"]
        padding = 64 * 4
        assert abs(row[f"{states}_master_params_bytes"] - 4 * elements) <= padding
        assert abs(row[f"{states}_optimizer_states_bytes"] - 8 * elements) <= padding
        assert row["device_master_params_bytes"] == row["device_optimizer_states_bytes"] == 0 or (
            states is Tier.DISK
            and row["device_optimizer_states_bytes"] + row["host_optimizer_states_bytes"] < 4096
        )
        assert row["device_grads_bytes"] == 0
        assert abs(row["host_grads_bytes"] - 2 * elements) <= padding
        assert 0.5 * 2 * elements < row[f"{params}_params_bytes"] <= 2 * elements + padding
        if params is not Tier.DEVICE:  # what is small stays whole
            assert row["device_params_bytes"] < 2 * elements
        if states is Tier.DISK:
            assert row["host_comm_buffers_bytes"] > 0
            assert row["host_master_params_bytes"] == 0


def test_the_record_says_what_the_disk_can_do_and_what_is_one_memory(
    pair: Team, tmp_path: Path
) -> None:
    arguments = {"folder": str(tmp_path), "stage": 2, "place": "optimizer to disk"}
    pair.run(recorded, run_dir=str(tmp_path / "run"), **arguments)
    told = [row for row in rows_of(tmp_path / "run", EVENTS) if row["kind"] == EventKind.OFFLOAD]
    assert [row["name"] for row in told if row["rank"] == 0] == ["host", "disk store", "disk fetch"]
    assert "same memory" in told[0]["message"]
    assert all(row["size_bytes"] > 0 < row["duration_ns"] for row in told if row["name"] != "host")
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
