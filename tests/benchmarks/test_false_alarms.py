"""The pairs of the A/A benchmark are judged as `probe compare` judges them."""

from pathlib import Path

from benchmarks.false_alarms import Asked, halves, judge
from benchmarks.synthetic_run import record_synthetic_run
from probe.analyse.compare.change import Direction
from probe.read.run import load_run
from probe.telling.measured import read_run


def test_a_run_beside_itself_is_the_same(tmp_path: Path) -> None:
    run = read_run(load_run(record_synthetic_run(tmp_path, ranks=2, steps=80, name="a")))
    for change in (judge((run, run)), halves(run)):
        assert change is not None
        assert change.direction in (Direction.SAME, Direction.INCONCLUSIVE)
    same = judge((run, run))
    assert same is not None
    assert same.ratio == 1
    figure = Asked(name="two", found=[same, None]).figure
    assert (figure.value, figure.kept) == (0, True)
