"""The sample runs as golden data: what a newcomer is told they show is what the reader finds."""

from pathlib import Path
from typing import Any

import pytest

from probe.analyse.steps.headline import summarise_run
from probe.read.run import check_run, load_run
from probe.schema.tables import COMM, MEMORY, METRICS, STEPS
from probe.schema.vocabulary import RunStatus, Severity
from probe.telling.run import Told, tell
from sample_runs.anonymous import check
from sample_runs.recordings import ROOT, SAMPLES

FOLDER = ROOT / "sample_runs"


def told(name: str) -> Told:
    return tell(load_run(FOLDER / name))


def ids(found: Told) -> set[str]:
    return {finding.id for finding in found.findings}


@pytest.mark.parametrize("name", [sample.name for sample in SAMPLES])
def test_a_sample_is_whole_and_names_nobody(name: str) -> None:
    run = load_run(FOLDER / name)
    assert not [item for item in check_run(run) if item.severity is not Severity.INFO]
    expected = RunStatus.KILLED if name == "killed" else RunStatus.FINISHED
    assert run.verdict.status is expected
    steps, memory, comm = (run.table(table.name).table for table in (STEPS, MEMORY, COMM))
    assert summarise_run(steps=steps, memory=memory, comm=comm).recorded_steps >= 25
    check(FOLDER / name)


def test_together_they_are_small() -> None:
    samples: list[Path] = [FOLDER / sample.name for sample in SAMPLES]
    files = [path for sample in samples for path in sample.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 6_000_000


def test_which_parameter_overflowed_and_where() -> None:
    (origin,) = told("overflow-by-design").facts.origins
    assert (origin.name, origin.ranks, origin.micro_batches) == ("sensor.weight", (1,), (1,))
    assert "initial-scale-too-high" in ids(told("fp16-stage2-overflow"))


def test_who_holds_the_others_up() -> None:
    found = told("straggler-4-ranks")
    assert "straggler" in ids(found)
    assert next(item for item in found.findings if item.id == "straggler").title.startswith(
        "Rank 2 "
    )


def test_what_stage_3_and_a_disk_save() -> None:
    def peak(name: str) -> int:
        use = told(name).facts.memory
        assert use is not None
        return use.peak.peak_bytes

    plain, sliced, on_disk = map(peak, ("fp32-stage0", "bf16-stage3", "bf16-stage3-disk"))
    assert plain > sliced > on_disk


def test_precision_costs_no_accuracy() -> None:
    def accuracy(name: str) -> Any:
        rows = load_run(FOLDER / name).table(METRICS.name).table.to_pylist()
        return [row["value"] for row in rows if row["name"] == "accuracy"][-1]

    values = [accuracy(f"digits-{precision}") for precision in ("fp32", "fp16", "bf16")]
    assert max(values) - min(values) <= 0.01
