"""The pairs of the A/A benchmark are judged as `probe compare` judges them."""

from pathlib import Path

from benchmarks.false_alarms import judge_pair
from benchmarks.synthetic_run import record_synthetic_run
from probe.analyse.compare.measure import Verdict


def test_a_run_beside_itself_is_the_same(tmp_path: Path) -> None:
    path = record_synthetic_run(tmp_path, ranks=2, steps=80, name="a")
    judged = judge_pair(path, path)
    assert judged is not None
    assert judged.verdict in (Verdict.SAME, Verdict.INCONCLUSIVE)
    assert judged.relative == 0
