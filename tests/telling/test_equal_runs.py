"""Which runs of a folder are starts of the same program, and what a comparison makes of them."""

from pathlib import Path

import pytest

from probe.__main__ import main
from probe.read.run import load_run
from probe.record.rank import RankWriter
from probe.record.run import RunWriter
from probe.schema.documents import Header, HostFacts
from probe.schema.vocabulary import Precision, RunStatus
from probe.seal import seal_run
from probe.telling import equal_runs as finding
from probe.telling.equal_runs import equal_runs, history_of
from probe.telling.measured import read_run
from tests.analyse.compared import manifest, rows_of_run

BETWEEN = (1.0, 1.04, 0.97, 1.02, 0.95)


def record(
    folder: Path, name: str, *, facts=None, status=RunStatus.FINISHED, speed=1.0, **rows
) -> Path:
    run = RunWriter.create(folder, manifest(**{"script_sha256": "abc", **(facts or {})}))
    told = {"steps": 30, "forward_ms": 30 * speed, "backward_ms": 50 * speed, **rows}
    for rank in range(2):
        writer = RankWriter(run.path, Header(rank=rank))
        for by_rank in rows_of_run(**told).values():
            for row in by_rank.get(rank, ()):
                writer.write(row)
        if status is not RunStatus.RUNNING:
            writer.close()
    if status is not RunStatus.RUNNING:
        run.finish(status, {0: 0, 1: 0})
    return run.path.rename(run.path.with_name(name))


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("equal") / "runs"
    for number, speed in enumerate(BETWEEN):
        path = record(folder, f"equal{number}", speed=speed, seed=number)
        if number % 2:
            seal_run(path)
    record(folder, "named", facts={"name": "other", "tags": ["x"]}, seed=5)
    record(folder, "failed", status=RunStatus.FAILED)
    record(folder, "running", status=RunStatus.RUNNING)
    record(folder, "bf16", facts={"precision": Precision.BF16})
    record(folder, "elsewhere", facts={"hosts": [HostFacts(name="node2", cores=8)]})
    record(folder, "code", facts={"script_sha256": "def"})
    (folder / "broken").mkdir()
    (folder / "broken" / "manifest.json").write_text("{")
    (folder / "empty").mkdir()
    return folder


def names(found) -> set[str]:
    return {Path(run.path).name for run in found}


def test_only_finished_runs_of_the_same_setup_count(runs: Path) -> None:
    found = equal_runs(read_run(load_run(runs / "equal0")))
    assert names(found) == {"equal1", "equal2", "equal3", "equal4", "named"}
    assert {key for run in found for key in run.medians} == {
        "step_time",
        "exposed_time",
        "throughput",
    }
    (fast,) = (run for run in found if run.path.endswith("equal2"))
    assert fast.medians["step_time"] == pytest.approx((80 * 0.97 + 20) * 1e6, rel=0.02)


def test_compared_runs_excuse_nothing(runs: Path) -> None:
    sides = [[read_run(load_run(runs / name))] for name in ("equal0", "equal1")]
    first, second = history_of(sides)
    assert names(first) == names(second) == {"equal2", "equal3", "equal4", "named"}
    assert history_of([sides[0] * 2, sides[1]])[0] == ()


def test_a_large_folder_costs_no_more(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finding, "MOST_READ", 2)
    assert len(equal_runs(read_run(load_run(runs / "equal0")))) == 2
    monkeypatch.setattr(finding, "MOST_ASKED", 0)
    assert equal_runs(read_run(load_run(runs / "equal0"))) == ()


def test_the_verdict_allows_for_how_runs_vary(
    runs: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    arguments = ["compare", "equal4", "equal1", "--runs-dir", str(runs)]
    # WHEN two starts of one program, 7 % apart, are judged by themselves
    assert main([*arguments, "--alone"]) == 0
    alone = capsys.readouterr().out
    assert "B is slower than A" in alone
    assert "how much runs vary by themselves is unknown" in alone
    # THEN those beside them know better
    assert main(arguments) == 0
    told = capsys.readouterr().out
    assert "Inconclusive whether B differs from A" in told
    assert "4 other runs of the same setup" in " ".join(told.split())
    assert max(map(len, told.split("\n"))) <= 80
    assert "more runs a side would settle" in told
