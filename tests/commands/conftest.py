"""Small runs made by the real writers, and `probe` called in this process or as its own."""

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest

from probe.__main__ import main
from probe.record.rank import RankWriter
from probe.record.run import RunWriter
from probe.schema.codec import encode_document
from probe.schema.documents import Header, Manifest
from probe.schema.layout import MANIFEST
from probe.schema.rows import CommRow, MemoryRow, MetricRow, StepRow
from probe.schema.vocabulary import CollectiveOp, Phase, RunStatus

ROOT = Path(__file__).parents[2]
STARTED_NS = 1_750_000_000 * 10**9


@dataclass(frozen=True)
class Answer:
    """What a call of `probe` came to."""

    code: int
    out: str
    err: str


@pytest.fixture(autouse=True)
def _plain_surroundings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    for variable in ("NO_COLOR", "FORCE_COLOR", "PROBE_DEBUG", "PROBE_RUNS", "_PROBE_COMPLETE"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def probe(capsys: pytest.CaptureFixture[str]) -> Callable[..., Answer]:
    """Calls the entry point in this process."""

    def call(*arguments: str | Path) -> Answer:
        capsys.readouterr()
        code = main([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        return Answer(code, out, err)

    return call


@pytest.fixture
def probe_process() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs `python -m probe` as a process of its own, its output into pipes."""

    def call(*arguments: str | Path, **surroundings: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "probe", *map(str, arguments)],
            capture_output=True,
            text=True,
            timeout=60,
            env={**os.environ, "PYTHONPATH": str(ROOT), **surroundings},
            check=False,
        )

    return call


@pytest.fixture
def make_run(tmp_path: Path) -> Callable[..., Path]:
    """Records a run of a few steps below `runs` of the working folder."""

    def make(
        name: str = "demo",
        *,
        steps: int = 3,
        ranks: int = 2,
        status: RunStatus = RunStatus.FINISHED,
        metric: str = "accuracy",
        loss: float = 2.5,
        **facts: Any,
    ) -> Path:
        facts = {"world_size": ranks, "started_ns": STARTED_NS, **facts}
        run = RunWriter.create(tmp_path / "runs", Manifest(name="made", **facts))
        for rank in range(ranks):
            writer = RankWriter(run.path, Header(rank=rank, host="node1"))
            for step in range(steps):
                write_step(writer, step, metric=metric, loss=loss)
                writer.beat(step=step, step_wall_ns=10**6)
            writer.close()
        if status is not RunStatus.RUNNING:
            run.finish(status, dict.fromkeys(range(ranks), 0))
        return run.path.rename(run.path.with_name(name))

    return make


def write_step(writer: RankWriter, step: int, *, metric: str, loss: float) -> None:
    op = CollectiveOp.ALL_REDUCE
    writer.write(StepRow(step=step, begin_ns=step, wall_ns=10**6 * (step + 1), loss=loss))
    writer.write(CommRow(step=step, phase=Phase.BACKWARD, op=op, wire_op=op, wire_bytes=100))
    writer.write(MemoryRow(step=step, peak_rss_bytes=10**9))
    writer.write(MetricRow(step=step, name=metric, value=0.5))


def rewrite_manifest(run: Path, **facts: Any) -> None:
    """Change facts of a manifest as somebody with an editor would."""
    manifest = msgspec.json.decode((run / MANIFEST).read_bytes(), type=Manifest)
    (run / MANIFEST).write_bytes(encode_document(msgspec.structs.replace(manifest, **facts)))


@pytest.fixture(name="rewrite_manifest")
def _rewrite_manifest() -> Callable[..., None]:
    return rewrite_manifest
