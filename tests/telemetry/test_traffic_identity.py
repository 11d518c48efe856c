"""What train.py really exchanges is what the closed form of its stage says."""

from pathlib import Path

import pytest
import torch

import train
from engine.config.policies import BatchPolicy, Config, PrecisionPolicy, ZeroPolicy
from probe.analyse.communication.theory import Exchange, TrafficResidual
from probe.analyse.run_facts import COLUMNS, run_facts
from probe.read.run import load_run
from probe.schema.documents import Manifest, ModelFacts, RunConfig
from probe.schema.vocabulary import Precision
from tests.engine.team import Team
from tests.telemetry.recorded import begin, recording_into

STEPS = 7
WIDTH, LENGTH, LETTERS = 32, 16, 28


def example() -> train.CharacterGPT:
    return train.CharacterGPT(LETTERS, WIDTH, layers=3, heads=4, length=LENGTH)


def trained(
    run_dir: str, stage: int, precision: Precision, accumulation: int, threshold: int
) -> int:
    """The example as it trains itself; how many elements it has."""
    config = Config(
        batch=BatchPolicy(micro=2, accumulation_steps=accumulation),
        precision=PrecisionPolicy(precision=precision),
        zero=ZeroPolicy(
            stage=stage, reduce_bucket_elements=10_000, persistence_threshold_elements=threshold
        ),
        clip_norm=1.0,
    )
    with recording_into(run_dir):
        trainer = begin(config, make=example)
        windows = torch.arange(2 * (LENGTH + 1)).remainder(LETTERS).view(2, LENGTH + 1)
        for _ in range(STEPS * accumulation):
            trainer.backward(trainer(windows[:, :-1], windows[:, 1:]))
            trainer.step()
        trainer.close()
    return sum(parameter.numel() for parameter in example().parameters())


@pytest.mark.parametrize(
    ("stage", "precision", "accumulation", "threshold"),
    [
        (0, Precision.BF16, 1, 0),
        (0, Precision.FP32, 2, 0),
        (1, Precision.BF16, 2, 0),
        (2, Precision.FP32, 2, 0),
        (3, Precision.BF16, 1, 0),
        (3, Precision.BF16, 2, 100),  # A few biases are resident: less than a page.
        (3, Precision.FP32, 2, 2000),
        (3, Precision.FP32, 1, 10**6),  # All of it is.
    ],
)
def test_traffic_is_explained_to_the_padding(
    teams: dict[int, Team],
    tmp_path: Path,
    stage: int,
    precision: Precision,
    accumulation: int,
    threshold: int,
) -> None:
    elements, *_ = teams[2].run(
        trained,
        run_dir=str(tmp_path),
        stage=stage,
        precision=precision,
        accumulation=accumulation,
        threshold=threshold,
    )
    # The launcher would have written this.
    manifest = Manifest(
        world_size=2,
        config=RunConfig(stage=stage, precision=precision, accumulation_steps=accumulation),
        model=ModelFacts(param_elements=elements),
    )
    run = load_run(tmp_path)
    tables = {
        table: run.table(table, columns=list(names)).table for table, names in COLUMNS.items()
    }
    lines = run_facts(manifest, tables).traffic_lines
    assert [line.exchange for line in lines] == list(Exchange)
    # Backward needs no embedding's weights, so stage 3 gathers these once where they are sliced.
    width = 4 if precision is Precision.FP32 else 2
    embeddings = [size for size in (LETTERS * WIDTH, LENGTH * WIDTH) if size > threshold]
    spared_bytes = sum(embeddings) * width * accumulation if stage == 3 else 0
    for line in lines:
        spared = spared_bytes if line.exchange is Exchange.GATHER else 0
        expected = {TrafficResidual.NONE, TrafficResidual.PADDING}
        assert line.residual in ({TrafficResidual.FORWARD_ONLY} if spared else expected)
        assert line.logical_bytes + spared == pytest.approx(line.theory_logical_bytes, rel=0.001)
        assert line.wire_excess == pytest.approx(1, abs=1e-9)
    resident_bytes = lines[1].resident_bytes
    assert (resident_bytes > 0) == (stage == 3 and threshold > 0)
