"""Recording a loop of your own, without any engine: the writers are all it takes.

Fits a line to noisy points with plain Python and records each step as if a loss scaler watched it.

    python examples/own_loop.py
    probe show latest
"""

import random
import time
from pathlib import Path

from probe.record.rank import RankWriter
from probe.record.run import RunWriter
from probe.schema.documents import Clock, Header, Manifest, ModelFacts, RunConfig
from probe.schema.rows import MetricRow, StepRow
from probe.schema.vocabulary import Phase, Precision, RunStatus
from probe.seal import seal_run

STEPS = 200
POINTS = 256


def main() -> None:
    """Fit, record, seal."""
    run = RunWriter.create(
        Path("runs"),
        Manifest(
            name="own-loop",
            recorder="examples/own_loop.py",
            command=["python", "examples/own_loop.py"],
            config=RunConfig(precision=Precision.FP32),
            model=ModelFacts(name="a line", param_elements=2, trainable_elements=2),
            expected_steps=STEPS,
        ),
    )
    clock = Clock(wall_ns=time.time_ns(), monotonic_ns=time.monotonic_ns())
    rank = RankWriter(run.path, Header(rank=0, clock=clock))
    slope, offset = 0.0, 0.0
    chance = random.Random(0)
    for step in range(STEPS):
        begin_ns = time.monotonic_ns()
        inputs = [chance.uniform(-1, 1) for _ in range(POINTS)]
        targets = [3 * x - 1 + chance.gauss(0, 0.1) for x in inputs]
        data_end_ns = time.monotonic_ns()
        errors = [slope * x + offset - y for x, y in zip(inputs, targets, strict=True)]
        loss = sum(error * error for error in errors) / POINTS
        forward_end_ns = time.monotonic_ns()
        slope -= 0.1 * 2 * sum(e * x for e, x in zip(errors, inputs, strict=True)) / POINTS
        offset -= 0.1 * 2 * sum(errors) / POINTS
        end_ns = time.monotonic_ns()
        rank.write(
            StepRow(
                step=step,
                begin_ns=begin_ns,
                wall_ns=end_ns - begin_ns,
                data_ns=data_end_ns - begin_ns,
                forward_ns=forward_end_ns - data_end_ns,
                backward_ns=end_ns - forward_end_ns,
                samples=POINTS,
                loss=loss,
                lr=0.1,
            )
        )
        rank.write(MetricRow(step=step, name="slope", value=slope))
        rank.beat(step=step, phase=Phase.BACKWARD, step_wall_ns=end_ns - begin_ns)
    rank.close()
    run.finish(RunStatus.FINISHED, {0: 0})
    seal_run(run.path)
    print(f"recorded {STEPS} steps into {run.path}; the line is {slope:.2f} x {offset:+.2f}")


if __name__ == "__main__":
    main()
