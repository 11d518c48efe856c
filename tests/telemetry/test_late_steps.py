"""Steps whose times only the device knows: written later, in order, whole, and with their loss."""

import json
from importlib import import_module
from pathlib import Path
from time import monotonic_ns
from typing import Any

import pytest

from engine import late
from engine.device_time import DeviceClock
from engine.tracing import PhaseClock
from probe.schema.layout import rank_dir
from probe.schema.tables import COMM, MEMORY, STEPS
from probe.schema.vocabulary import Phase
from tests.engine.cases import config
from tests.engine.team import Team
from tests.telemetry.recorded import begin, micro_batch, recording_into, rows_of

NUMBER = 7
# The package has a function of the same name.
initializing = import_module("engine.initialize")


class Event:
    """Reached at once, as the CPU does all at once, but known only when the timer says so."""

    def __init__(self, timer: "Timer") -> None:
        self._timer = timer
        self.at_ns = 0

    def record(self) -> None:
        self.at_ns = monotonic_ns()

    def query(self) -> bool:
        if self._timer.failed:
            raise RuntimeError("the device failed")
        return self.at_ns <= self._timer.known_ns

    def elapsed_time(self, later: "Event") -> float:
        assert self.query() and later.query()
        return (later.at_ns - self.at_ns) / 1e6


class Timer:
    """Lets a test say how far the device got."""

    def __init__(self) -> None:
        self.known_ns = 0
        self.failed = False

    def event(self) -> Event:
        return Event(self)

    def record(self, event: Event) -> None:
        event.record()

    def takes_events(self) -> bool:
        return True

    def catches_up(self) -> None:
        self.known_ns = monotonic_ns()


def written(run_dir: str) -> list[int]:
    path = Path(run_dir) / rank_dir(0) / STEPS.file_name
    lines = path.read_text().splitlines() if path.exists() else []
    return [json.loads(line)["step"] for line in lines]


def trained(run_dir: str, *, on_device: bool, stage: int = 2) -> list[float]:
    """The losses that the script saw; the device is two steps behind."""
    timer = Timer()
    losses, asked_at = [], []
    with pytest.MonkeyPatch.context() as patch, recording_into(run_dir):
        made = (lambda device: DeviceClock(timer)) if on_device else (lambda device: PhaseClock())
        patch.setattr(initializing, "clock_of", made)
        trainer = begin(config(stage))
        for number in range(NUMBER):
            asked_at.append(monotonic_ns())
            losses.append(micro_batch(trainer, number))
            if on_device:
                # A step is written when a later one ends and the device has got past it.
                assert written(run_dir) == list(range(max(0, number - 2)))
                timer.known_ns = asked_at[max(0, number - 1)]
            else:
                assert written(run_dir) == list(range(number + 1))
        trainer.close()
        timer.catches_up()
    return losses


def test_rows_come_late_in_order_and_whole(teams: dict[int, Team], tmp_path: Path) -> None:
    (losses,) = teams[1].run(trained, run_dir=str(tmp_path), on_device=True)
    rows = rows_of(tmp_path, STEPS)
    assert [row["step"] for row in rows] == list(range(NUMBER))
    assert [row["loss"] for row in rows] == losses
    assert [row["step"] for row in rows_of(tmp_path, MEMORY)] == list(range(NUMBER))
    for row in rows:
        assert sum(row[f"{phase.value}_ns"] for phase in Phase) == row["wall_ns"]
        assert row["forward_ns"] > 0 and row["backward_ns"] > 0 and row["optimizer_ns"] > 0


def test_nothing_but_times_differs_from_the_hosts_record(
    teams: dict[int, Team], tmp_path: Path
) -> None:
    for on_device in (False, True):
        teams[2].run(
            trained_quietly, run_dir=str(tmp_path / str(on_device)), on_device=on_device, stage=3
        )
    for table in (STEPS, COMM):
        told = [
            [
                {name: value for name, value in row.items() if not name.endswith("_ns")}
                for row in rows_of(tmp_path / str(on_device), table)
            ]
            for on_device in (False, True)
        ]
        assert told[0] and told[0] == told[1]
    for row in rows_of(tmp_path / "True", COMM):
        assert 0 <= row["exposed_ns"] <= row["busy_ns"]


def trained_quietly(run_dir: str, *, on_device: bool, stage: int) -> None:
    timer = Timer()
    with pytest.MonkeyPatch.context() as patch, recording_into(run_dir):
        if on_device:
            patch.setattr(initializing, "clock_of", lambda device: DeviceClock(timer))
        trainer = begin(config(stage))
        for number in range(3):
            micro_batch(trainer, number)
            timer.catches_up()
        trainer.close()


def never_finished(run_dir: str, *, failed: bool) -> None:
    timer = Timer()
    with pytest.MonkeyPatch.context() as patch, recording_into(run_dir):
        patch.setattr(initializing, "clock_of", lambda device: DeviceClock(timer))
        patch.setattr(late, "LAST_WAIT_S", 0.05)
        trainer = begin(config(1))
        for number in range(3):
            micro_batch(trainer, number)
        timer.failed = failed
        micro_batch(trainer, 3)
        trainer.close()


@pytest.mark.parametrize("failed", [False, True])
def test_a_device_that_never_gets_there_keeps_nobody(
    teams: dict[int, Team], tmp_path: Path, failed: bool
) -> None:
    teams[1].run(never_finished, run_dir=str(tmp_path), failed=failed)
    rows: list[dict[str, Any]] = rows_of(tmp_path, STEPS)
    assert [(row["step"], row["loss"]) for row in rows] == [(step, None) for step in range(4)]
    for row in rows:
        assert sum(row[f"{phase.value}_ns"] for phase in Phase) == row["wall_ns"] > 0
